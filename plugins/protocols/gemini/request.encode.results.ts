import {
  asObject,
  defined,
  type JsonObject,
  type Part,
  RawJson,
  safeId,
  type ToolResult,
} from "model-gateway/protocol";
import { writeMedia } from "./request.encode.media.ts";
import { shaped } from "./request.members.ts";
import type { NativePart } from "./request.native.ts";
import { fittedName, nativeOf, type Writing } from "./request.writing.ts";

/** True for the text of a JSON object. */
export function jsonText(text: string): boolean {
  if (!/^\s*\{/.test(text)) return false;
  try {
    return asObject(JSON.parse(text)) !== undefined;
  } catch {
    return false;
  }
}

/** A tool's result. It needs the function's name, which other protocols only tell with the call. */
export function writeResult(result: ToolResult, native: NativePart | undefined, writing: Writing): JsonObject {
  const { call } = writing.calls.get(result.callId) ?? {};
  const name = native ? result.name : called(result, call, writing);
  const media = result.parts.filter((part) => part.kind === "media");
  const parts = media.map((part) => writeMedia(part, nativeOf<NativePart>(writing, part), writing));
  const functionResponse = shaped(
    defined({
      id: native ? result.callId : safeId(result.callId),
      name,
      response: native ? ownResponse(result, native) : response(result),
      parts: parts.length > 0 || native ? parts : undefined,
    }),
    native?.inner,
  );
  return shaped({ functionResponse }, native?.form);
}

function called(result: ToolResult, call: Parameters<typeof fittedName>[1] | undefined, writing: Writing): string {
  if (call) return fittedName(writing, call);
  if (result.name !== undefined) return fittedName(writing, { name: result.name });
  return writing.terms.refuse(result.at, "the result needs the name of its tool, which the call before it tells");
}

function ownResponse(result: ToolResult, { key, json }: NativePart): unknown {
  const text = result.json ?? result.parts.find((part) => part.kind === "text")?.text;
  if (text === undefined) return undefined;
  const value = json === true ? new RawJson(text) : text;
  return key === undefined ? value : { [key]: value };
}

/** An object as it is, a text as the `output`; of a failure either as the `error`. */
function response(result: ToolResult): unknown {
  const text = result.json ?? textOf(result.parts);
  const object = jsonText(text) ? new RawJson(text) : undefined;
  if (result.isError === true) return { error: object ?? text };
  return object ?? { output: text };
}

/** All texts, a line each. */
const textOf = (parts: readonly Part[]): string =>
  parts
    .filter((part) => part.kind === "text")
    .map(({ text }) => text)
    .join("\n");
