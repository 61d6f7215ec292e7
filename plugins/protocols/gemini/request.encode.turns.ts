import {
  type Conversation,
  type EncodeContext,
  type JsonObject,
  joined,
  type Part,
  type ToolCall,
  type Turn,
} from "model-gateway/protocol";
import { says, writePart } from "./request.encode.parts.ts";
import { shaped } from "./request.members.ts";
import { NAME, type NativeTurn } from "./request.native.ts";
import { nativeOf, pathOf, type Writing } from "./request.writing.ts";

const isSystem = ({ role }: Turn): boolean => role === "system" || role === "developer";

/** The system turns at the start, and all others as contents whose roles alternate. */
export function writeTurns(writing: Writing): { instruction?: JsonObject | string; contents: unknown[] } {
  const { turns } = writing.conversation;
  const begun = turns.findIndex((turn) => !isSystem(turn));
  // With nothing but system messages there is nobody to answer to: the last one is what is asked.
  const first = begun < 0 && !writing.own ? turns.length - 1 : begun;
  const lead = first < 0 ? turns : turns.slice(0, first);
  const instruction = writing.own ? ownInstruction(lead[0], writing) : instructionOf(lead, writing);
  const rest = first < 0 ? [] : turns.slice(first);
  const contents = writing.own ? rest.map((turn) => content(turn, writing)) : contentsOf(rest, writing);
  if (contents.length === 0 && !writing.own) contents.push(silence(turns, writing));
  return { contents, ...(instruction === undefined ? {} : { instruction }) };
}

function ownInstruction(turn: Turn | undefined, writing: Writing): JsonObject | string | undefined {
  if (!turn) return undefined;
  const { form } = nativeOf<NativeTurn>(writing, turn) ?? {};
  const [only] = turn.parts;
  if (!form) return only?.kind === "text" ? only.text : undefined;
  return shaped({ parts: written(turn.parts, writing) }, form);
}

/** A part for each text of the system's. */
function instructionOf(turns: readonly Turn[], writing: Writing): JsonObject | undefined {
  const parts = written(turns.flatMap((turn) => turn.parts).filter(says), writing);
  return parts.length > 0 ? { parts } : undefined;
}

function contentsOf(turns: readonly Turn[], writing: Writing): unknown[] {
  const { terms } = writing;
  const last = turns.at(-1);
  if (last?.role === "assistant" && terms.facts.prefill === false)
    terms.refuse(pathOf(writing, "prefill", last.at), "the model does not go on from a turn of its own");
  const placed = turns.map((turn) => (isSystem(turn) ? reminder(turn, terms) : turn));
  const spoken = placed.map((turn) => ({ ...turn, parts: turn.parts.filter(says) }));
  const joint = joined(spoken.filter(({ parts }) => parts.length > 0));
  return joint.flatMap((turn) => resultsApart(turn, writing)).map((turn) => content(turn, writing));
}

/** Without contents there is no request. A user who says nothing is taken as one. [F] */
function silence(turns: readonly Turn[], { terms }: Writing): JsonObject {
  if (!turns.some(({ role }) => role === "user"))
    terms.refuse(turns[0]?.at ?? "messages", "a turn of the user is needed besides the system's");
  return { role: "user", parts: [{ text: "" }] };
}

/** The system in the middle of a conversation: here it can only speak through the user. */
function reminder(turn: Turn, terms: EncodeContext): Turn {
  const uses = turn.parts.filter((part) => part.kind !== "text" || part.text.trim() !== "");
  if (uses.length === 0) return { ...turn, role: "user", parts: [] };
  terms.change(turn.at, "a system message between turns is sent as a text of the user's, in <system-reminder>");
  const mark = (text: string): Part => ({ kind: "text", at: turn.at, text });
  return { ...turn, role: "user", parts: linesOf([mark("<system-reminder>"), ...uses, mark("</system-reminder>")]) };
}

/** Texts that follow each other as one, a line each; media stay between them. */
function linesOf(parts: readonly Part[]): Part[] {
  const out: Part[] = [];
  for (const part of parts) {
    const last = out.at(-1);
    if (last?.kind !== "text" || part.kind !== "text") out.push(part);
    else out[out.length - 1] = { kind: "text", at: last.at, text: `${last.text}\n${part.text}` };
  }
  return out;
}

/**
 * Results follow their calls at once and in their order: the vendor may pair them by place. What else the user says is a
 * content of its own, as every recorded request has it. [F]
 */
function resultsApart(turn: Turn, { calls }: Writing): Turn[] {
  const results = turn.parts.filter((part) => part.kind === "tool_result");
  if (results.length === 0) return [turn];
  const order = (id: string): number => calls.get(id)?.order ?? 0;
  results.sort((a, b) => order(a.callId) - order(b.callId));
  const others = turn.parts.filter((part) => part.kind !== "tool_result");
  return [{ ...turn, parts: results }, ...(others.length > 0 ? [{ ...turn, parts: others }] : [])];
}

function content(turn: Turn, writing: Writing): JsonObject {
  const role = turn.role === "assistant" ? "model" : "user";
  return shaped({ role, parts: written(turn.parts, writing) }, nativeOf<NativeTurn>(writing, turn)?.form);
}

const written = (parts: readonly Part[], writing: Writing): unknown[] => parts.map((part) => writePart(part, writing));

/**
 * The calls on which the vendor misses a signature: the first of each step since the user last spoke. Its models with
 * thinking levels refuse such a request. [D: thought signatures] A turn that only brings results is no turn of the user.
 */
export function unsignedCalls({ turns }: Conversation, terms: EncodeContext): Set<ToolCall> {
  const { thinking } = terms.facts;
  if (thinking === "budget" || thinking === "none") return new Set();
  const steps = joined(turns.filter((turn) => !isSystem(turn)));
  const spoke = steps.findLastIndex(
    ({ role, parts }) => role === "user" && !parts.some((part) => part.kind === "tool_result"),
  );
  const first = steps
    .slice(spoke + 1)
    .filter(({ role }) => role === "assistant")
    .map(({ parts }) => parts.find((part) => part.kind === "tool_call"))
    .filter((call) => call !== undefined);
  const unsigned = first.filter(({ opaque }) => opaque?.protocol !== NAME);
  if (unsigned[0])
    terms.change(
      unsigned[0].at,
      "the call bears no thought signature of the model; it is sent with the vendor's bypass",
    );
  return new Set(unsigned);
}
