// Streams of providers and of the SDK itself, converted for one major and read by its own reader.
// usage: node read.mjs NODE_MODULES MAJOR BINARY
import { spawnSync } from 'node:child_process';
import { assert, chunks, parts, read, sdk, text } from './sdk.mjs';

const [modules, word, binary] = process.argv.slice(2);
const major = Number(word);
const ai = await sdk(modules, major);

const sse = (events, done) => [...events.map((event) => JSON.stringify(event)), ...(done ? ['[DONE]'] : [])].map((data) => `data: ${data}\n\n`).join('');

/** A stream of a protocol as the SDK reads it. */
async function converted(from, events) {
  const body = sse(events, from !== 'anthropic-messages');
  const run = spawnSync(binary, ['convert', '--kind', 'stream', '--from', from, '--to', 'vercel-uimessage', '--client-version', word, '--raw', '-'], { input: body });
  assert.equal(run.status, 0, run.stderr.toString());
  return read(ai, chunks(ai, new Response(run.stdout).body));
}

const block = (index, start, deltas) => [
  { type: 'content_block_start', index, content_block: start },
  ...deltas.map((delta) => ({ type: 'content_block_delta', index, delta })),
  { type: 'content_block_stop', index },
];
const anthropic = (...blocks) => [
  { type: 'message_start', message: { id: 'msg_1', type: 'message', role: 'assistant', model: 'm', content: [], usage: { input_tokens: 5, output_tokens: 1 } } },
  ...blocks.flat(),
  { type: 'message_delta', delta: { stop_reason: 'tool_use', stop_sequence: null }, usage: { output_tokens: 9 } },
  { type: 'message_stop' },
];

{
  const found = [{ type: 'web_search_result', url: 'https://example.org/a', title: 'A', encrypted_content: 'c2VjcmV0', page_age: null }];
  const citation = { type: 'web_search_result_location', url: 'https://example.org/a', title: 'A', encrypted_index: 'c2VjcmV0', cited_text: 'words' };
  const { message, errors } = await converted('anthropic-messages', anthropic(
    block(0, { type: 'thinking', thinking: '', signature: '' }, [{ type: 'thinking_delta', thinking: 'Let me see.' }, { type: 'signature_delta', signature: 'c2lnbmF0dXJl' }]),
    block(1, { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: {} }, [{ type: 'input_json_delta', partial_json: '{"query":"q"}' }]),
    block(2, { type: 'web_search_tool_result', tool_use_id: 'srvtoolu_1', content: found }, []),
    block(3, { type: 'text', text: '' }, [{ type: 'text_delta', text: 'Found it 🌍.' }, { type: 'citations_delta', citation }]),
    block(4, { type: 'tool_use', id: 'toolu_1', name: 'weather', input: {} }, [{ type: 'input_json_delta', partial_json: '{"city":' }, { type: 'input_json_delta', partial_json: '"Rome"}' }]),
    block(5, { type: 'tool_use', id: 'toolu_2', name: 'time', input: {} }, []),
  ));
  assert.deepEqual(errors, []);
  assert.deepEqual(parts(message, 'reasoning').map((part) => part.text), ['Let me see.']);
  assert.equal(text(message), 'Found it 🌍.');
  const [search] = parts(message, 'tool-web_search');
  assert.equal(search.state, 'output-available');
  assert.equal(search.providerExecuted, true);
  assert.deepEqual(search.input, { query: 'q' });
  const [weather] = parts(message, 'tool-weather');
  assert.deepEqual([weather.state, weather.toolCallId, weather.input], ['input-available', 'toolu_1', { city: 'Rome' }]);
  assert.deepEqual(parts(message, 'tool-time').map((part) => part.input), [{}]);
  assert.deepEqual(parts(message, 'source-url').map((part) => part.url), ['https://example.org/a']);
  assert.equal(JSON.stringify(message).includes('c2VjcmV0'), false, 'private payloads stay with their provider');
  assert.equal(JSON.stringify(message).includes('c2lnbmF0dXJl'), false, 'signatures stay with their provider');
  if (major >= 7) assert.equal(parts(message, 'text')[0].citations[0].citedText, 'words');
}

{
  const delta = (delta, finish_reason = null) => ({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [{ index: 0, delta, finish_reason }] });
  const call = (index, more) => delta({ tool_calls: [{ index, ...more }] });
  const { message, errors } = await converted('openai-chat', [
    delta({ role: 'assistant', content: '' }),
    call(0, { id: 'call_a', type: 'function', function: { name: 'f', arguments: '' } }),
    call(1, { id: 'call_b', type: 'custom', custom: { name: 'sql', input: 'SELECT' } }),
    call(0, { function: { arguments: '{"a":1}' } }),
    call(1, { custom: { input: ' 1' } }),
    delta({}, 'tool_calls'),
    { id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [], usage: { prompt_tokens: 5, completion_tokens: 6, total_tokens: 11 } },
  ]);
  assert.deepEqual(errors, []);
  assert.deepEqual(parts(message, 'tool-f')[0].input, { a: 1 });
  assert.equal(parts(message, 'tool-sql')[0].input, 'SELECT 1');
  assert.equal(message.metadata.usage.totalTokens, 11);
}

{
  // The SDK's own stream, with everything that the newest major has.
  const { message, errors } = await converted('vercel-uimessage', [
    { type: 'start', messageId: 'm1', messageMetadata: { createdAt: 1 } },
    { type: 'start-step' },
    { type: 'tool-input-start', toolCallId: 'a', toolName: 'pay' },
    { type: 'tool-input-available', toolCallId: 'a', toolName: 'pay', input: { amount: 1 } },
    { type: 'tool-approval-request', approvalId: 'q1', toolCallId: 'a', reason: 'expensive' },
    { type: 'tool-approval-response', approvalId: 'q1', approved: false, reason: 'no' },
    { type: 'tool-output-denied', toolCallId: 'a' },
    { type: 'tool-input-available', toolCallId: 'b', toolName: 'look', input: {}, dynamic: true },
    { type: 'tool-output-available', toolCallId: 'b', output: { seen: true } },
    { type: 'tool-input-available', toolCallId: 'c', toolName: 'look', input: {} },
    { type: 'tool-output-error', toolCallId: 'c', errorText: 'blind' },
    { type: 'finish-step' },
    { type: 'start-step' },
    { type: 'text-start', id: 't' },
    { type: 'text-delta', id: 't', delta: 'taken back' },
    { type: 'reset-step' },
    { type: 'text-start', id: 't' },
    { type: 'text-delta', id: 't', delta: 'Done.' },
    { type: 'text-end', id: 't' },
    { type: 'file', url: 'data:image/png;base64,AAAA', mediaType: 'image/png' },
    { type: 'source-document', sourceId: 's', mediaType: 'application/pdf', title: 'T' },
    { type: 'data-weather', id: 'w', data: { t: 1 } },
    { type: 'data-weather', id: 'w', data: { t: 2 } },
    { type: 'finish-step' },
    { type: 'finish', finishReason: 'stop' },
  ]);
  assert.deepEqual(errors, []);
  assert.equal(message.id, 'm1');
  assert.equal(parts(message, 'step-start').length, 2);
  assert.equal(parts(message, 'tool-pay')[0].state, major >= 6 ? 'output-denied' : 'output-error');
  assert.deepEqual(parts(message, 'dynamic-tool').map((part) => [part.toolName, part.output]), [['look', { seen: true }]]);
  assert.deepEqual(parts(message, 'tool-look').map((part) => [part.state, part.errorText]), [['output-error', 'blind']]);
  assert.equal(text(message), 'Done.');
  assert.deepEqual(parts(message, 'data-weather').map((part) => part.data), [{ t: 2 }]);
  assert.deepEqual([parts(message, 'file').length, parts(message, 'source-document').length], [1, 1]);
}
console.log(`vercel: major ${major} reads converted streams`);
