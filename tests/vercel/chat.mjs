// `DefaultChatTransport` against a running gateway with its demo models: turns, a reconnect in the middle, errors.
// usage: node chat.mjs NODE_MODULES MAJOR BINARY
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, existsSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { assert, chunks, parts, read, sdk, text } from './sdk.mjs';

const [modules, word, binary] = process.argv.slice(2);
const major = Number(word);
const ai = await sdk(modules, major);

const folder = mkdtempSync(join(tmpdir(), 'throughline-vercel-'));
const ready = join(folder, 'ready.json');
const gateway = spawn(binary, ['serve', '--demo', '--listen', '127.0.0.1:0', '--data-dir', join(folder, 'data'), '--ready-file', ready], { stdio: 'ignore' });
const stopped = new Promise((resolve) => gateway.once('exit', resolve));

async function started() {
  for (let tries = 0; tries < 400; tries += 1) {
    if (existsSync(ready) && readFileSync(ready, 'utf8').trim()) return JSON.parse(readFileSync(ready, 'utf8')).url;
    assert.equal(gateway.exitCode, null, 'the gateway ended before it was ready');
    await sleep(50);
  }
  throw new Error('the gateway was not ready in time');
}

const user = (id, words) => ({ id, role: 'user', parts: [{ type: 'text', text: words }] });

try {
  const api = `${await started()}/vercel/chat`;
  const headers = { 'throughline-ai-sdk': word };
  const answers = [];
  const transport = new ai.DefaultChatTransport({
    api,
    headers,
    body: { model: 'demo-anthropic' },
    fetch: async (...request) => {
      const response = await fetch(...request);
      answers.push(response);
      return response;
    },
  });
  const send = (chatId, messages, more = {}) => transport.sendMessages({ chatId, messages, trigger: 'submit-message', messageId: undefined, abortSignal: undefined, ...more });

  // A conversation of two turns: the gateway finds the first one again by what the client sends back.
  const first = [user('u1', 'Hello, who are you?')];
  const one = await read(ai, await send('chat-1', first));
  assert.deepEqual(one.errors, []);
  assert.equal(one.message.role, 'assistant');
  assert.ok(text(one.message).includes('demo-anthropic'), text(one.message));
  assert.ok(parts(one.message, 'reasoning')[0].text.length > 0);
  assert.equal(parts(one.message, 'step-start').length, 1);
  assert.ok(one.message.metadata.usage.outputTokens > 0);
  assert.equal(answers[0].headers.get('x-vercel-ai-ui-message-stream'), 'v1');
  assert.match(answers[0].headers.get('content-type'), /^text\/event-stream/);
  assert.equal(one.message.id, answers[0].headers.get('throughline-operation'), 'the answer has a stable ID');

  const second = [...first, one.message, user('u2', 'Tell me a joke.')];
  const two = await read(ai, await send('chat-1', second));
  assert.ok(text(two.message).length > 0);
  const conversations = answers.map((answer) => answer.headers.get('throughline-conversation'));
  assert.equal(conversations[0], conversations[1], 'one conversation');

  // An answer that goes on with the client's last message keeps that message's ID.
  const goes = await read(ai, await send('chat-2', [...first, one.message]));
  assert.equal(goes.message.id, one.message.id);

  // Nothing runs: 204, which the transport tells as null.
  assert.equal(await transport.reconnectToStream({ chatId: 'chat-1', headers }), null);
  assert.equal(await transport.reconnectToStream({ chatId: 'unknown', headers }), null);

  // A reconnect in the middle reads the answer from its beginning, and the first reader's end changes nothing.
  const stop = new AbortController();
  const torn = await send('chat-3', [user('u1', 'Hello again, tell me who you are.')], { abortSignal: stop.signal });
  const reader = torn.getReader();
  const seen = [];
  while (seen.filter((chunk) => chunk.type === 'reasoning-delta').length < 2) seen.push((await reader.read()).value);
  const resumed = await transport.reconnectToStream({ chatId: 'chat-3', headers });
  assert.ok(resumed, 'the answer is still running');
  stop.abort();
  const [replay, rest] = resumed.tee();
  const again = await read(ai, replay);
  const all = [];
  for await (const chunk of rest) all.push(chunk);
  assert.deepEqual(all.slice(0, seen.length), seen, 'the replay begins where the answer began');
  assert.equal(all.at(-1).type, 'finish');
  assert.deepEqual(again.errors, []);
  assert.equal(again.message.id, seen[0].messageId);
  const operation = answers.at(-1).headers.get('throughline-operation');
  const stored = await (await fetch(`${new URL(api).origin}/unified/v2/operations/${operation}`)).json();
  const told = stored.result.output.filter((item) => item.kind === 'message').flatMap((item) => item.parts).map((part) => part.text).join('');
  assert.equal(text(again.message), told, 'what was read is what was stored');
  assert.equal(await transport.reconnectToStream({ chatId: 'chat-3', headers }), null);

  // Refusals reach the application as errors, with the words of the gateway.
  await assert.rejects(send('chat-4', []), /expected at least one message/);
  const nobody = new ai.DefaultChatTransport({ api, headers, body: { model: 'no-such-model' } });
  await assert.rejects(nobody.sendMessages({ chatId: 'chat-4', messages: first, trigger: 'submit-message' }), /no-such-model|model/);
  const other = new ai.DefaultChatTransport({ api, headers: { 'throughline-ai-sdk': '4' }, body: { model: 'demo-openai' } });
  await assert.rejects(other.sendMessages({ chatId: 'chat-4', messages: first, trigger: 'submit-message' }), /throughline-ai-sdk/);

  // A raw reader sees only chunks that its major knows.
  const raw = await fetch(api, { method: 'POST', headers: { ...headers, 'content-type': 'application/json' }, body: JSON.stringify({ id: 'chat-5', model: 'demo-openai', messages: first, trigger: 'submit-message' }) });
  const { message } = await read(ai, chunks(ai, raw.body));
  assert.ok(text(message).includes('demo-openai'));
  console.log(`vercel: major ${major} talks to the gateway`);
} finally {
  gateway.kill('SIGTERM');
  await stopped;
  rmSync(folder, { recursive: true, force: true });
}
