// What both tests need: the SDK of one major, its reader, and assertions that say what they are about.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import { resolve } from 'node:path';

/** The SDK of a major from a node_modules folder. */
export async function sdk(modules, major) {
  const require = createRequire(pathToFileURL(resolve(modules, 'x.js')));
  return import(pathToFileURL(require.resolve(`ai${major}`)));
}

/** The bytes of an event stream as chunks; a chunk that the major does not know is an error. */
export function chunks(ai, body) {
  const parsed = ai.parseJsonEventStream({ stream: body, schema: ai.uiMessageChunkSchema });
  return parsed.pipeThrough(new TransformStream({
    transform(result, controller) {
      if (!result.success) throw result.error;
      controller.enqueue(result.value);
    },
  }));
}

/** Reads chunks to the end as the SDK does: every state of the message, and the errors that it was told. */
export async function read(ai, stream) {
  const errors = [];
  let last;
  for await (const message of ai.readUIMessageStream({ stream, onError: (error) => errors.push(error) })) last = message;
  return { message: last, errors };
}

/** Parts of a kind. */
export const parts = (message, kind) => message.parts.filter((part) => part.type === kind);

/** The text of a message. */
export const text = (message) => parts(message, 'text').map((part) => part.text).join('');

export { assert };
