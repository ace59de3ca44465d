// Every projection of a captured payload, against the types of the target's official SDK in the hands of a validator that is not ours.
// `node projections.mjs NODE_MODULES PROGRAM SHARED`: the program converts, SHARED holds the corpus and the types.
//
// What a payload's owner gets back is its own, right or wrong, so it counts only where the payload itself is valid.
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { jobs, protocols } from "./corpus.mjs";

const [modules, program, shared] = process.argv.slice(2);
const require = createRequire(resolve(modules, "x.js"));
const Ajv = require("ajv/dist/2020.js").default;

// An enumeration without values says that the SDK names none: any word may stand there.
const open = (key, value) => (key === "enum" && Array.isArray(value) && !value.length ? undefined : value);
const types = (file) => JSON.parse(readFileSync(join(shared, "specs", `${file}.sdk-types.json`), "utf8"), open);
const files = {
  chat: types("openai-chat"),
  responses: types("openai-responses"),
  claude: types("anthropic-messages-beta"),
  gemini: types("gemini-generate-content"),
  interactions: types("gemini-interactions"),
};
const ajv = new Ajv({ strict: false, allErrors: false, validateFormats: false });
for (const [name, file] of Object.entries(files)) ajv.addSchema({ $id: name, $defs: { ...file.$defs, ...roots(file) } });

/** The roots of a file that are no definitions yet. */
function roots(file) {
  return Object.fromEntries(Object.entries(file.roots ?? {}).filter(([name]) => !(name in file.$defs)));
}

const of = (name) => ajv.getSchema(name);
const lists = (members) => (body) => firstWrong(members.flatMap(([key, name]) => [body[key] ?? []].flat().map((value) => [name, value])));
const gemini = lists([
  ["contents", "gemini#/$defs/Content"],
  ["systemInstruction", "gemini#/$defs/Content"],
  ["tools", "gemini#/$defs/Tool"],
  ["toolConfig", "gemini#/$defs/ToolConfig"],
  ["generationConfig", "gemini#/$defs/GenerationConfig"],
  ["safetySettings", "gemini#/$defs/SafetySetting"],
]);
const one = (name) => (body) => firstWrong([[name, body]]);
const answer = (name) => (body) => (body.error && !body.id && !body.candidates ? null : one(name)(body));
const claudeAnswer = (body) => (body.type === "error" ? null : one("claude#/$defs/BetaMessage")(body));
const claudeEvent = (body) => (["error", "ping"].includes(body.type) ? null : one("claude#/$defs/BetaRawMessageStreamEvent")(body));

/** What checks a body of each kind: the first thing that is wrong with it, or null. */
const CHECKS = {
  "openai-chat": [one("chat#/$defs/CompletionCreateParams"), answer("chat#/$defs/ChatCompletion"), answer("chat#/$defs/ChatCompletionChunk")],
  "openai-responses": [one("responses#/$defs/ResponseCreateParams"), answer("responses#/$defs/Response"), one("responses#/$defs/ResponseStreamEvent")],
  "anthropic-messages": [one("claude#/$defs/BetaMessageCreateParams"), claudeAnswer, claudeEvent],
  "gemini-generate-content": [gemini, answer("gemini#/$defs/GenerateContentResponse"), answer("gemini#/$defs/GenerateContentResponse")],
  "vertex-gemini": [gemini, answer("gemini#/$defs/GenerateContentResponse"), answer("gemini#/$defs/GenerateContentResponse")],
  "gemini-interactions": [one("interactions#/$defs/CreateModelInteraction"), answer("interactions#/$defs/Interaction"), one("interactions#/$defs/InteractionSSEEvent")],
};
const KINDS = ["request", "response", "stream"];

/**
 * Where the types of an SDK are narrower than the provider, or demand what nobody can know, as [target, why, what mends a copy].
 * Captured payloads of the provider itself differ in the same way.
 */
const NARROW = [
  [/gemini-generate-content|vertex-gemini/, "answers tell the class of service beside the counters", (body) => delete body.usageMetadata?.serviceTier],
  [/vertex-gemini/, "pictures have a configuration", (body) => delete body.generationConfig?.imageConfig],
  [/openai-responses/, "a counter that nobody knows is null or absent, since zero would be a figure", ({ response, ...body }) => {
    const usage = (response ?? body).usage;
    if (!usage) return;
    usage.input_tokens_details = { cached_tokens: 0, cache_write_tokens: 0, ...usage.input_tokens_details };
    usage.output_tokens_details ??= { reasoning_tokens: 0 };
  }],
  [/openai-responses/, "searches are counted without pictures", (body) => delete (body.response ?? body).tool_usage],
  [/openai-responses/, "these codes are those that clients act on", (body) => {
    const error = (body.response ?? body).error;
    if (["context_length_exceeded", "insufficient_quota", "server_is_overloaded"].includes(error?.code)) error.code = "server_error";
  }],
  [/openai-responses/, "not every vendor tells the bytes of a token, and which others were likely", (body) => {
    const lists = [body.logprobs, ...[(body.response ?? body).output ?? [], body.item ?? []].flat().flatMap((item) => item.content ?? []).map((part) => part.logprobs), body.part?.logprobs];
    for (const token of lists.flat()) for (const one of token ? [token, ...(token.top_logprobs ??= [])] : []) one.bytes ??= [];
  }],
  [/anthropic-messages/, "one hosted tool may be counted without the other", (body) => {
    const calls = (body.message ?? body).usage?.server_tool_use;
    if (calls) { calls.web_search_requests ??= 0; calls.web_fetch_requests ??= 0; }
  }],
  [/anthropic-messages/, "writes to a cache of one life may be counted without those of the other", (body) => {
    const writes = (body.message ?? body).usage?.cache_creation;
    if (writes) { writes.ephemeral_5m_input_tokens ??= 0; writes.ephemeral_1h_input_tokens ??= 0; }
  }],
  [/openai-chat/, "a custom tool is called in streams too", (body) => {
    for (const choice of body.choices ?? []) for (const call of choice.delta?.tool_calls ?? []) if (call.type === "custom") call.type = "function";
  }],
];

function firstWrong(pairs) {
  for (const [name, value] of pairs) {
    const validate = of(name);
    if (!validate) throw new Error(`no type ${name}`);
    if (!validate(value)) return deepest(validate.errors);
  }
  return null;
}

/** The error that lies deepest: of a union, that of the branch that fits best. */
function deepest(errors) {
  const depth = (e) => e.instancePath.split("/").length;
  return errors.reduce((best, e) => (depth(e) > depth(best) ? e : best));
}

/** The events or chunks of a stream, or the body itself. */
function* bodies(kind, output) {
  if (kind !== "stream") return yield output;
  for (const event of output) {
    const data = typeof event === "object" && "data" in event ? event.data : event;
    if (data === "[DONE]") continue;
    yield typeof data === "string" ? JSON.parse(data) : data;
  }
}

function wrong(target, kind, output) {
  const check = CHECKS[target][KINDS.indexOf(kind)];
  for (const body of bodies(kind, output)) {
    for (const [targets, , mend] of NARROW) if (targets.test(target)) mend(body);
    const error = check(body);
    if (error) return { ...error, message: `${error.message} in ${body.type ?? kind}` };
  }
  return null;
}

const count = {};
const corpus = join(shared, "corpus/wire");
for (const protocol of protocols(corpus)) {
  const all = [...jobs(corpus, protocol)];
  if (!all.length) continue;
  for (const target of Object.keys(CHECKS)) {
    const feed = all.map((job) => JSON.stringify({ ...job, to: target })).join("\n");
    const run = spawnSync(program, ["convert", "--batch", "-"], { input: feed, encoding: "utf8", maxBuffer: 2 ** 31 });
    const lines = run.stdout.split("\n").filter(Boolean);
    if (lines.length !== all.length) throw new Error(`${protocol} to ${target}: ${lines.length} answers to ${all.length} payloads: ${run.stderr}`);
    for (const [index, line] of lines.entries()) {
      const { id, exit, output } = JSON.parse(line);
      const { kind, body } = all[index];
      if (exit !== 0 || output == null) continue;
      const tally = (count[`${target} ${kind}`] ??= { valid: 0, invalid: 0 });
      const error = wrong(target, kind, output);
      if (!error) tally.valid++;
      else if (target !== protocol) {
        tally.invalid++;
        console.log(`projections: ${id} to ${target}: ${error.instancePath} ${error.message} ${JSON.stringify(error.params)}`);
      }
    }
  }
}
for (const [what, { valid, invalid }] of Object.entries(count)) console.log(`projections: ${what}: ${valid} valid, ${invalid} not`);
if (Object.values(count).some(({ valid, invalid }) => invalid || !valid)) process.exitCode = 1;
