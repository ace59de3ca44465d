// The JSON Schema bundle in the hands of a validator that is not ours: it compiles under its strict rules, takes the records of
// schema/vectors, and refuses each of them with a member too much in any of its objects. `node schema.mjs NODE_MODULES`.
import { readFileSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { resolve } from "node:path";

const require = createRequire(resolve(process.argv[2], "x.js"));
const Ajv = require("ajv/dist/2020.js").default;
const bundle = JSON.parse(readFileSync("schema/unified-v2.schema.json", "utf8"));
// Members of a union's kind are required beside the common ones, which stand behind a reference.
const ajv = new Ajv({ strict: true, strictRequired: false });
require("ajv-formats").default(ajv);
ajv.addSchema(bundle);

/** Objects of a record that are closed: neither opaque values nor maps whose keys are data. */
const open = new Set(["input", "value", "payload", "schema", "labels", "inputSchema", "outputSchema", "actions", "filter"]);
function* objects(value) {
  if (value === null || typeof value !== "object") return;
  if (!Array.isArray(value)) yield value;
  for (const [key, member] of Object.entries(value)) if (!open.has(key) && !/By[A-Z]|serverToolCalls/.test(key)) yield* objects(member);
}

let [taken, refused] = [0, 0];
const fail = (text) => { console.error(`schema: ${text}`); process.exitCode = 1; };
for (const name of readdirSync("schema/vectors")) {
  const { record, input } = JSON.parse(readFileSync(`schema/vectors/${name}`, "utf8"));
  const validate = ajv.getSchema(`${bundle.$id}#/$defs/${record}`);
  if (!validate(input)) fail(`${name} is refused: ${JSON.stringify(validate.errors)}`);
  taken++;
  for (const object of objects(input)) {
    object.zzz = 1;
    if (validate(input)) fail(`${name} is taken with an unknown member beside ${Object.keys(object)}`);
    delete object.zzz;
    refused++;
  }
}
for (const other of [{}, [], null, { schemaVersion: "2.1" }]) if (ajv.getSchema(bundle.$id)(other)) fail(`${JSON.stringify(other)} is taken`);
if (taken < 10 || refused < 15) fail(`only ${taken} records and ${refused} changed ones`);
console.log(`schema: ${taken} records taken, ${refused} changed ones refused`);
