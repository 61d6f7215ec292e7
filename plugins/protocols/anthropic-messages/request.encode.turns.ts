import {
  type Conversation,
  type EncodeContext,
  type JsonObject,
  joined,
  type Part,
  type Turn,
} from "model-gateway/protocol";
import { blockOf, type Marks } from "./request.encode.blocks.ts";
import type { OwnForm } from "./request.reading.ts";

/** A message as it is written. */
type Message = JsonObject & { role: string; content: JsonObject[] };

/**
 * Writes `system` and `messages`. Turns of the user and the assistant alternate, the results of tools stand first. A
 * system message between turns stays in its place: as it is where the model takes that, else as text of the user.
 * Without `marks` everything is written exactly as it was read.
 */
export function messagesOf(
  conversation: Conversation,
  terms: EncodeContext,
  marks: Marks | undefined,
): { system: unknown; messages: JsonObject[] } {
  if (!marks) return exactly(conversation.turns, terms);
  const uses = conversation.turns.map((turn) => sayable(turn, terms)).filter(({ parts }) => parts.length > 0);
  const first = uses.findIndex((turn) => !isSystem(turn));
  // With nothing but system messages there is nobody to answer to: the last one is what is asked.
  const leading = uses.slice(0, first < 0 ? Math.max(0, uses.length - 1) : first);
  const turns = joined(placed(uses.slice(leading.length), terms));
  const system = leading.flatMap((turn) => blocks(turn, terms, marks));
  refusePrefill(turns, terms);
  if (turns.length === 0) terms.refuse(conversation.turns[0]?.at ?? "messages", "There is no message to answer");
  return { system: system.length > 0 ? system : undefined, messages: turns.map((turn) => message(turn, terms, marks)) };
}

const isSystem = ({ role }: Turn): boolean => role === "system" || role === "developer";

/** A turn without what cannot or must not be said: empty texts, what others' vendors left, unsigned thoughts. */
function sayable(turn: Turn, terms: EncodeContext): Turn {
  return { ...turn, parts: turn.parts.filter((part) => isSayable(part, terms)) };
}

function isSayable(part: Part, terms: EncodeContext): boolean {
  if (part.kind === "text" || part.kind === "refusal") return part.text.trim() !== "";
  if (part.kind !== "reasoning") return part.kind !== "foreign" || blockOf(part, terms) !== undefined;
  if (blockOf(part, terms)) return true;
  terms.drop(part.at, "This model takes back only the thoughts that it signed itself");
  return false;
}

/** System messages between turns, where they stand. In place they must follow a turn of the user. [D] */
function placed(turns: readonly Turn[], terms: EncodeContext): Turn[] {
  const out: Turn[] = [];
  for (const turn of turns) {
    const before = out.at(-1);
    const follows = before?.role === "user" || before?.role === "system";
    if (!isSystem(turn)) out.push(turn);
    else if (terms.facts.system_in_place === true && follows) out.push({ ...turn, role: "system" });
    else {
      terms.change(turn.at, "as text of the user");
      out.push({ ...turn, role: "user", parts: turn.parts.map(reminder) });
    }
  }
  return merged(out);
}

/** Neighbouring system messages are one, as those of other roles are. */
function merged(turns: readonly Turn[]): Turn[] {
  const out: Turn[] = [];
  for (const turn of turns) {
    const before = out.at(-1);
    if (turn.role === "system" && before?.role === "system") for (const part of turn.parts) before.parts.push(part);
    else out.push({ ...turn, parts: [...turn.parts] });
  }
  return out;
}

function reminder(part: Part): Part {
  if (part.kind !== "text") return part;
  return { ...part, text: `<system-reminder>\n${part.text}\n</system-reminder>` };
}

function refusePrefill(turns: readonly Turn[], terms: EncodeContext): void {
  const last = turns.at(-1);
  if (last?.role === "assistant" && terms.facts.prefill === false)
    terms.refuse(last.at, "This model does not continue a turn of the assistant; end with one of the user");
}

function message(turn: Turn, terms: EncodeContext, marks: Marks): Message {
  const content = blocks(turn, terms, marks);
  const results = content.filter(({ type }) => type === "tool_result");
  const others = content.filter(({ type }) => type !== "tool_result");
  return { role: turn.role, content: [...results, ...others] };
}

function blocks(turn: Turn, terms: EncodeContext, marks: Marks): JsonObject[] {
  return turn.parts.map(hoisted).flatMap((part) => {
    if (part.kind === "media" && turn.role !== "user")
      terms.refuse(part.at, "This model takes images and files from the user only");
    const block = blockOf(part, terms);
    if (!block) return [];
    if (part.cache) marks.add(block, part.at);
    return [block];
  });
}

/** A mark within a result stands on the result, where it counts. */
function hoisted(part: Part): Part {
  const cache = part.kind === "tool_result" ? part.parts.findLast((each) => each.cache)?.cache : undefined;
  if (part.kind !== "tool_result" || !cache) return part;
  return { ...part, cache: part.cache ?? cache, parts: part.parts.map(({ cache: _, ...each }): Part => each) };
}

function exactly(turns: readonly Turn[], terms: EncodeContext): { system: unknown; messages: JsonObject[] } {
  const content = (turn: Turn): unknown => {
    const own = turn.native as OwnForm | undefined;
    const written = turn.parts.map((part) => blockOf(part, terms, true));
    return own?.string ? written[0]?.["text"] : written;
  };
  const system = turns.find(({ at }) => at === "system");
  const messages = turns.filter((turn) => turn !== system);
  return {
    system: system && content(system),
    messages: messages.map((turn) => ({
      role: turn.role,
      content: content(turn),
      ...(turn.native as OwnForm | undefined)?.rest,
    })),
  };
}
