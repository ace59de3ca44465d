// Every record that the captured payloads give, against the JSON Schema bundle in the hands of a validator that is not ours.
// `node records.mjs NODE_MODULES PROGRAM CORPUS`: the program decodes, the corpus is a folder of protocols.
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { resolve } from "node:path";
import { jobs, protocols } from "./corpus.mjs";

const [modules, program, corpus] = process.argv.slice(2);
const require = createRequire(resolve(modules, "x.js"));
const Ajv = require("ajv/dist/2020.js").default;
const ajv = new Ajv({ strict: true, strictRequired: false });
require("ajv-formats").default(ajv);
const bundle = JSON.parse(readFileSync("schema/unified-v2.schema.json", "utf8"));
ajv.addSchema(bundle);
const roots = { request: "UnifiedRequestV2", response: "UnifiedResultV2", stream: "UnifiedResultV2" };
const validators = Object.fromEntries(Object.entries(roots).map(([kind, name]) => [kind, ajv.getSchema(`${bundle.$id}#/$defs/${name}`)]));

let [valid, refused] = [0, 0];
for (const protocol of protocols(corpus)) {
  const all = [...jobs(corpus, protocol)];
  if (!all.length) continue;
  const feed = all.map((job) => JSON.stringify(job)).join("\n");
  const run = spawnSync(program, ["convert", "--batch", "-"], { input: feed, encoding: "utf8", maxBuffer: 2 ** 30 });
  const lines = run.stdout.split("\n").filter(Boolean);
  if (lines.length !== all.length) throw new Error(`${protocol}: ${lines.length} answers to ${all.length} payloads: ${run.stderr}`);
  let here = 0;
  for (const [index, line] of lines.entries()) {
    const { id, exit, unified, error } = JSON.parse(line);
    if (exit !== 0) {
      // A protocol that this build does not speak yields no record; anything else is a payload that it cannot read.
      if (["unsupported.direction", "invalid-request.unknown-protocol"].includes(error?.code)) break;
      console.error(`records: ${id} is not decoded: ${JSON.stringify(error)}`);
      process.exitCode = 1;
      continue;
    }
    const validate = validators[all[index].kind];
    if (validate(unified)) here++;
    else {
      refused++;
      console.error(`records: ${id}: ${JSON.stringify(validate.errors?.slice(0, 3))}`);
    }
  }
  if (here) console.log(`records: ${protocol}: ${here} valid`);
  valid += here;
}
if (refused) process.exitCode = 1;
if (valid < 100) { console.error(`records: only ${valid} valid records`); process.exitCode = 1; }
console.log(`records: ${valid} valid, ${refused} refused`);
