// The captured payloads, as `convert --batch` takes them.
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";

/** The protocols that the corpus holds payloads of. */
export const protocols = (corpus) => readdirSync(corpus).sort();

/** The jobs of one protocol, as `convert --batch` takes them. */
export function* jobs(corpus, protocol) {
  for (const [kind, folder] of [["request", "requests"], ["response", "responses"], ["stream", "streams"]]) {
    const place = join(corpus, protocol, folder);
    if (!existsSync(place)) continue;
    for (const name of readdirSync(place).sort()) {
      if (name.endsWith(".meta.json") || !/\.(jsonl?|sse)$/.test(name)) continue;
      const text = readFileSync(join(place, name), "utf8");
      // A stream that was captured as one JSON value a line is framed as the wire frames it.
      const framed = () => name.endsWith(".sse") ? text : text.split("\n").filter((line) => line.trim()).map((line) => `data: ${line}\n\n`).join("");
      yield { id: `${protocol}/${folder}/${name}`, kind, from: protocol, body: kind === "stream" ? framed() : JSON.parse(text) };
    }
  }
}
