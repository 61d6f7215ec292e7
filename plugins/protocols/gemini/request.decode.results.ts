import { type Part, parseExact, RawJson, type ToolResult } from "model-gateway/protocol";
import type { Calls } from "./request.calls.ts";
import { readMedia, refuseTwo } from "./request.decode.media.ts";
import { type Members, wrong } from "./request.members.ts";
import { type NativePart, type Reading, remembered, say, sayLeft } from "./request.native.ts";

/** What the vendor's documents call the members of `response` for a result and for a failure. [S] */
const WRAPPED: ReadonlySet<string> = new Set(["output", "error"]);

/** A function's result. */
export function readResult(part: Members, calls: Calls, reading: Reading): ToolResult {
  const result = part.object("functionResponse") as Members;
  const name = result.text("name") ?? wrong(result.path("name"), "is missing");
  const id = result.text("id") || undefined;
  const callId = calls.result(name, id) ?? orphan(result, name, id, reading);
  if (callId !== id) result.keep("id");
  // A signature on a result is nothing that could be told to anyone else.
  part.keep("thoughtSignature");
  const response = result.raw("response");
  const { key, value } = unwrapped(response);
  const media = readMore(result, reading);
  const text = typeof value === "string" ? value : value?.text;
  const json = media.length === 0 && value instanceof RawJson && value.text.startsWith("{") ? value.text : undefined;
  const texts: Part[] = text === undefined || json !== undefined ? [] : [{ kind: "text", at: result.at, text }];
  if (key === "error") say(reading, "tool_result_error", result.path("response"));
  sayLeft(part, reading);
  sayLeft(result, reading);
  return {
    kind: "tool_result",
    at: part.at,
    callId,
    name,
    parts: [...texts, ...media],
    ...(json === undefined ? {} : { json }),
    ...(key === "error" ? { isError: true } : {}),
    ...remembered(
      reading,
      (): NativePart => ({
        form: part.form(),
        inner: result.form(),
        ...(key === undefined ? {} : { key }),
        ...(value instanceof RawJson ? { json: true } : {}),
      }),
    ),
  };
}

/** A result of nothing. Between equals their vendor judges, which may know the call from elsewhere. */
function orphan(result: Members, name: string, id: string | undefined, { asked }: Reading): string {
  if (asked.native) return id ?? name;
  return wrong(
    result.at,
    `is a result of ${name}, which no call before it asked for`,
    "Each functionResponse needs a functionCall of the same id, or name, in the turn of the model before it.",
  );
}

/** The result itself: what `output` or `error` holds where nothing else is there, otherwise the whole object. */
function unwrapped(response: RawJson | undefined): { key?: "output" | "error"; value?: string | RawJson } {
  if (!response) return {};
  const members = Object.entries(parseExact(response.text, WRAPPED) as object);
  const [name, value] = members[0] ?? [];
  if (members.length !== 1 || (name !== "output" && name !== "error")) return { value: response };
  if (typeof value === "string" || value instanceof RawJson) return { key: name, value };
  return { key: name, value: new RawJson(JSON.stringify(value)) };
}

/** Images and files beside the result. */
function readMore(result: Members, reading: Reading): Part[] {
  return (result.list("parts") ?? []).map((part) => {
    if (!part.has("inlineData") && !part.has("fileData")) wrong(part.at, "must hold inlineData or fileData");
    refuseTwo(part, reading);
    say(reading, "tool_result_media", part.at);
    return readMedia(part, reading);
  });
}
