import { asObject, entryOf, type Part, RawJson, type Turn } from "model-gateway";
import { Calls } from "./request.calls.ts";
import { readPart } from "./request.decode.parts.ts";
import { Members, wrong } from "./request.members.ts";
import { type NativeTurn, type Reading, remembered, say, sayLeft } from "./request.native.ts";

/** Who speaks. `function` is what results of functions once came from. */
const ROLES: Readonly<Record<string, Turn["role"]>> = { user: "user", model: "assistant", function: "user" };

/** The system turn, if there is an instruction: text alone or a content, whose role means nothing. */
export function readInstruction(request: Members, reading: Reading): Turn[] {
  const value = request.get("systemInstruction");
  if (value === undefined) return [];
  const at = request.path("systemInstruction");
  if (typeof value === "string")
    return [{ role: "system", at, parts: [{ kind: "text", at, text: value }], ...remembered(reading, () => ({})) }];
  const content = Members.of(value, at);
  const parts = readParts(content, new Calls(new Set()), reading);
  return [{ role: "system", at, parts, ...remembered(reading, (): NativeTurn => ({ form: content.form() })) }];
}

/** All other turns, in order. */
export function readContents(request: Members, reading: Reading): Turn[] {
  const contents =
    request.list("contents") ?? wrong(request.path("contents"), "is missing", "It is a list of {role, parts}.");
  const calls = new Calls(ids(contents));
  const turns = contents.map((content) => {
    const said = content.text("role");
    const role = entryOf(ROLES, said ?? "user") ?? unknownRole(content, reading);
    if (said === "function") content.keep("role");
    calls.turn(role);
    const parts = readParts(content, calls, reading);
    const native = remembered(reading, (): NativeTurn => ({ form: content.form() }));
    return { role, at: content.at, parts, ...native };
  });
  const last = turns.at(-1);
  if (last?.role === "assistant") say(reading, "prefill", last.at);
  return turns;
}

/** Between equals their vendor judges: it is told as it came. */
function unknownRole(content: Members, { asked }: Reading): Turn["role"] {
  if (!asked.native) wrong(content.path("role"), "must be user or model");
  content.keep("role");
  return "user";
}

function readParts(content: Members, calls: Calls, reading: Reading): Part[] {
  const parts = content.list("parts") ?? [];
  sayLeft(content, reading);
  const read = parts.flatMap((part) => readPart(part, calls, reading));
  return reading.asked.native ? read : wholeThoughts(read, reading);
}

/** A thought that came in pieces, the last of which bears its signature, as the one that it was. */
function wholeThoughts(parts: readonly Part[], { said }: Reading): Part[] {
  const out: Part[] = [];
  for (const part of parts) {
    const last = out.at(-1);
    if (part.kind !== "reasoning" || last?.kind !== "reasoning" || last.opaque) {
      out.push(part);
      continue;
    }
    out[out.length - 1] = { ...part, at: last.at, text: `${last.text ?? ""}${part.text ?? ""}` };
    const again = said.findIndex(({ feature, path }) => feature === "reasoning_text" && path === part.at);
    if (again >= 0) said.splice(again, 1);
  }
  return out;
}

/** Ids that the client gave to calls, so that none is given twice. */
function ids(contents: readonly Members[]): Set<string> {
  const found = new Set<string>();
  for (const { source } of contents) {
    const { parts } = source;
    for (const part of Array.isArray(parts) ? parts : [parts]) {
      const members = part instanceof RawJson ? undefined : asObject(part);
      const call = asObject(members?.["functionCall"] ?? members?.["function_call"]);
      if (typeof call?.["id"] === "string") found.add(call["id"]);
    }
  }
  return found;
}
