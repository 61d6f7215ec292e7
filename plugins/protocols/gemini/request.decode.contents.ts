import { asObject, entryOf, type FeatureUse, type Part, RawJson, type Turn } from "model-gateway/protocol";
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
    const uses = content.text("role");
    const role = entryOf(ROLES, uses || "user") ?? unknownRole(content, reading);
    // Left out or empty is the same (proto JSON).
    if (uses === "function" || uses === "") content.keep("role");
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
  const { asked, uses } = reading;
  const parts = content.list("parts") ?? [];
  sayLeft(content, reading);
  const read: Part[] = [];
  for (const part of parts) {
    const before = uses.length;
    for (const each of readPart(part, calls, reading))
      if (asked.native || !goesOn(read, each, uses, before)) read.push(each);
  }
  return read;
}

/**
 * Puts a thought that came in pieces together, the last of which bears its signature: true for a part that is now part of
 * the one before. @param before how much was said before it was read
 */
function goesOn(read: Part[], part: Part, uses: FeatureUse[], before: number): boolean {
  const last = read.at(-1);
  if (part.kind !== "reasoning" || last?.kind !== "reasoning" || last.opaque) return false;
  read[read.length - 1] = { ...part, at: last.at, text: `${last.text ?? ""}${part.text ?? ""}` };
  for (const each of uses.splice(before))
    if (each.feature !== "reasoning_text" || each.path !== part.at) uses.push(each);
  return true;
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
