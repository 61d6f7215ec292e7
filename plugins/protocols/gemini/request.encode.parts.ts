import {
  defined,
  type JsonObject,
  type Opaque,
  type Part,
  RawJson,
  type Reasoning,
  safeId,
  type ToolCall,
} from "model-gateway/protocol";
import { writeMedia } from "./request.encode.media.ts";
import { jsonText, writeResult } from "./request.encode.results.ts";
import { shaped } from "./request.members.ts";
import { BYPASS, NAME, type NativePart } from "./request.native.ts";
import { fittedName, nativeOf, type Writing } from "./request.writing.ts";

/** False for a part that comes to nothing here: nothing but an empty text, or another vendor's block. */
export function says(part: Part): boolean {
  if (part.kind === "foreign") return part.protocol === NAME;
  if (part.kind === "text") return part.text !== "" || signature(part.opaque) !== undefined;
  return part.kind !== "reasoning" || Boolean(thoughts(part)) || signature(part.opaque) !== undefined;
}

/** A part as the vendor takes it. */
export function writePart(part: Part, writing: Writing): unknown {
  const native = nativeOf<NativePart>(writing, part);
  switch (part.kind) {
    case "text":
      return signed({ text: part.text }, signature(part.opaque), native);
    case "refusal":
      return { text: part.text };
    case "reasoning":
      return signed(defined({ text: thoughts(part), thought: true }), signature(part.opaque), native);
    case "tool_call":
      return writeCall(part, native, writing);
    case "tool_result":
      return writeResult(part, native, writing);
    case "media":
      return writeMedia(part, native, writing);
    case "foreign":
      return part.json;
  }
}

const signature = (opaque: Opaque | undefined): string | undefined =>
  opaque?.protocol === NAME ? opaque.data : undefined;

/** A part with its signature, which is written also where the source had it elsewhere. */
function signed(made: JsonObject, thoughtSignature: string | undefined, native: NativePart | undefined): JsonObject {
  if (thoughtSignature === undefined) return shaped(made, native?.form);
  const part = shaped({ ...made, thoughtSignature }, native?.form);
  return native?.form.names["thoughtSignature"] === undefined ? { ...part, thoughtSignature } : part;
}

const thoughts = ({ text, summary }: Reasoning): string | undefined => text ?? summary?.join("\n\n");

function writeCall(call: ToolCall, native: NativePart | undefined, writing: Writing): JsonObject {
  const own = native !== undefined;
  const bypass = writing.unsigned.has(call) ? BYPASS : undefined;
  const functionCall = shaped(
    {
      id: own ? call.id : safeId(call.id),
      name: own ? call.name : fittedName(writing, call),
      args: argumentsOf(call, writing),
    },
    native?.inner,
  );
  return signed({ functionCall }, signature(call.opaque) ?? bypass, native);
}

/** Arguments as an object, whose text stays as it is. */
function argumentsOf(call: ToolCall, { terms }: Writing): unknown {
  if (call.custom === true) return { input: call.arguments };
  if (call.arguments.trim() === "") return {};
  return jsonText(call.arguments)
    ? new RawJson(call.arguments)
    : terms.refuse(call.at, "the call's arguments must be a JSON object there");
}
