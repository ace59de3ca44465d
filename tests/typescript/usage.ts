// How a program uses the declarations. What must not compile says so.
import type { Json, UnifiedContentPart, UnifiedEventV2, UnifiedGenerationIntent, UnifiedItem, UnifiedProtocolProfile, UnifiedResultV2 } from "../../schema/unified-v2.js";

/** A union narrows by its kind. */
export function textOf(item: UnifiedItem): string {
  switch (item.kind) {
    case "message":
      return item.parts.map((part) => (part.kind === "text" ? part.text : "")).join("");
    case "tool-call":
    case "server-tool-call":
      return item.rawArguments;
    case "heartbeat" as never:
      return "";
    default:
      // @ts-expect-error: not every other kind has parts.
      return item.parts.length.toString();
  }
}

/** An event narrows too, also where a kind has no members of its own. */
export const isIdle = (event: UnifiedEventV2): boolean => event.kind === "heartbeat" && event.sequence >= 0;

export const part: UnifiedContentPart = { partId: "op.i0.p0", kind: "text", text: "hi", language: "en" };

// @ts-expect-error: a part has an ID.
export const nameless: UnifiedContentPart = { kind: "text", text: "hi" };

// @ts-expect-error: there is no such kind.
export const telepathy: UnifiedContentPart = { partId: "p", kind: "telepathy", text: "hi" };

/** Every wish has a strength, and its value a type. */
export const generation: UnifiedGenerationIntent = {
  temperature: { value: 0.5, requirement: "preferred" },
  stopSequences: { value: ["END"], requirement: "required" },
  // @ts-expect-error: a temperature is a number.
  topP: { value: "high", requirement: "optional" },
};

/** An open list takes any word, a closed one does not. */
export const profile: UnifiedProtocolProfile = { family: "acme:chat" };
// @ts-expect-error: there is one version.
export const version: UnifiedResultV2["schemaVersion"] = "2.1";

export const opaque: Json = { any: [1, null, { thing: true }] };
