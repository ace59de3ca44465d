// Takes the TypeScript snippets out of the specification and of the page that defines what the specification only names,
// and writes modules that compare each of them with the declarations: `node extract.mjs SHARED OUT`.
import { readFileSync, writeFileSync } from "node:fs";
import { relative, resolve, join } from "node:path";

const [shared, out] = process.argv.slice(2);
const declarations = resolve("schema/unified-v2.d.ts");
const ours = new Set([...readFileSync(declarations, "utf8").matchAll(/^export (?:interface|type) (\w+)/gm)].map((m) => m[1]));
const from = relative(resolve(out), declarations).replace(/\.d\.ts$/, ".js");

/** Declarations of a text, each from its first line to the end of its braces. */
function snippets(lines) {
  const found = new Map();
  for (let i = 0; i < lines.length; i++) {
    const head = /^(?:interface|type) (\w+)/.exec(lines[i]);
    if (!head) continue;
    const body = [];
    let depth = 0;
    for (; i < lines.length; i++) {
      body.push(lines[i]);
      const code = lines[i].replace(/\/\/.*$/, "").replace(/"[^"]*"/g, "");
      for (const c of code) depth += "{[(".includes(c) ? 1 : "}])".includes(c) ? -1 : 0;
      const ends = head[0].startsWith("interface") ? code.includes("}") : /;\s*$/.test(code);
      if (depth === 0 && ends) break;
    }
    if (!found.has(head[1])) found.set(head[1], body.join("\n"));
  }
  return found;
}

/**
 * A module that declares the snippets and compares each with ours of the same name, in both directions.
 * `exceptions`: name -> { ours: reason, besides?: member } where ours is not one of theirs, why, and the one member that it is for.
 */
function module(title, found, prelude, exceptions, more = []) {
  const text = [...found.values()].join("\n\n");
  const free = [...new Set([...text.matchAll(/\b(?:Unified\w+|Json)\b/g)].map((m) => m[0]))].filter((name) => !found.has(name));
  const unknown = free.filter((name) => !ours.has(name) && !prelude.some((line) => line.includes(`type ${name} `)));
  if (unknown.length) throw new Error(`${title}: named but declared nowhere: ${unknown.join(", ")}`);
  const checks = [];
  let compared = 0;
  for (const [name, body] of found) {
    if (!ours.has(name) || /^(?:interface|type) \w+</.test(body)) continue;
    checks.push(`export const ${name}_theirs: Assignable<Spec.${name}, Ours.${name}> = true;`);
    compared++;
    const exception = exceptions[name];
    if (exception) {
      checks.push(`// ${exception.ours}`, `export const ${name}_ours: Assignable<Ours.${name}, Spec.${name}> = false;`);
    }
    if (exception && !exception.besides) continue;
    const rest = (type) => (exception ? `Omit<${type}, "${exception.besides}">` : type);
    checks.push(`export const ${name}_ours${exception ? "_rest" : ""}: Assignable<${rest(`Ours.${name}`)}, ${rest(`Spec.${name}`)}> = true;`);
    compared++;
  }
  const imports = free.filter((name) => ours.has(name)).map((name) => `  type ${name} = Ours.${name};`);
  const declared = text.replace(/^(interface|type) /gm, "export $1 ");
  console.log(`typescript: ${title}: ${found.size} snippets, ${compared} comparisons`);
  return [
    `import type * as Ours from "${from.startsWith(".") ? from : "./" + from}";`,
    "type Assignable<From, To> = [From] extends [To] ? true : false;",
    "export namespace Spec {", ...imports, ...prelude.map((line) => "  " + line), declared, "}", ...checks, ...more, "",
  ].join("\n");
}

// The specification.
const specLines = readFileSync(join(shared, "spec/unified-v2.txt"), "utf8").split(/\r?\n/);
const spec = snippets(specLines);
const execution = specLines.find((line) => /^execution: "client"/.test(line));
if (spec.size < 12 || !execution) throw new Error("the specification's snippets are not where they were");
spec.set("ToolExecution", `interface ToolExecution { ${execution} }`);
const tool = ['export const execution_theirs: Assignable<Spec.ToolExecution, Pick<Ours.UnifiedToolDefinition, "execution">> = true;',
  'export const execution_ours: Assignable<Pick<Ours.UnifiedToolDefinition, "execution">, Spec.ToolExecution> = true;'];
writeFileSync(join(out, "spec.ts"), module("specification", spec, [], {
  UnifiedProviderCheckpoint: { ours: "In JSON bytes are text, and the declarations say so.", besides: "encryptedPayload" },
}, tool));

// The page of the open types: `a?, b?: T` stands for two members, lines with `+` add to an interface elsewhere.
const page = readFileSync(join(shared, "design/open-types.md"), "utf8");
const pageLines = [...page.matchAll(/```ts\n([\s\S]*?)```/g)].flatMap((m) => m[1].split("\n")).filter((line) => !line.startsWith("+"))
  .map((line) => line.replace(/((?:\w+\?, )+\w+\?): ([^;]+);/g, (_, names, type) => names.split(", ").map((name) => `${name}: ${type};`).join(" ")));
const prelude = ["export type Count = number;", "export type Seconds = number;", "export type Time = string;", "export type Sha256 = string;"];
const isTrue = "A member that only ever says true is a boolean in the declarations; the rule `always-true` holds it to that.";
const flat = "The declarations have one flat record for all kinds; the rule `tool-choice` tells which members go together.";
const kind = "The kind stands in the union, so that it narrows; the common members alone have none.";
writeFileSync(join(out, "design.ts"), module("open types", snippets(pageLines), prelude, {
  UnifiedToolChoice: { ours: flat },
  UnifiedCacheDirective: { ours: isTrue, besides: "breakpoint" },
  UnifiedItemProvenance: { ours: isTrue, besides: "truncated" },
  UnifiedToolDefinition: { ours: isTrue, besides: "cache" },
  UnifiedEventBase: { ours: kind, besides: "kind" },
}));
