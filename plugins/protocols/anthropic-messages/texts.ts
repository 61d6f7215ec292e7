import {
  asList,
  asObject,
  asText,
  type JsonObject,
  type JsonPath,
  type OpaqueConsequence,
  type OpaquePlace,
  type OpaquePlaces,
  type Protocol,
  stringsIn,
  type TextKind,
  type TextPlace,
} from "model-gateway/protocol";
import {
  isThinking,
  isThinkingLost,
  LOST_THINKING,
  lacksThinking,
  NO_THINKING_BLOCK,
  needsThinking,
  refusesLackOfThinking,
} from "./support.thinking.ts";
import { CLAUDE, SEARCH_RESULT } from "./wire.ts";

/** Positions of human text in requests, messages and events. */
export const texts: NonNullable<Protocol["texts"]> = {
  request: requestTexts,
  response: responseTexts,
  names: {
    containers: ["system", "messages", "content", "source", "citations"],
    members: [
      "role",
      "type",
      "text",
      "title",
      "context",
      "cited_text",
      "document_title",
      "stdout",
      "stderr",
      "data",
      "thinking",
      "input",
    ],
  },
};

function* requestTexts(body: unknown): Generator<TextPlace> {
  const request = asObject(body);
  yield* contentTexts(request?.["system"], ["system"], "system");
  for (const [i, value] of asList(request?.["messages"]).entries()) {
    const message = asObject(value);
    yield* contentTexts(message?.["content"], ["messages", i, "content"], KINDS.get(message?.["role"]) ?? "user");
  }
}

const KINDS: ReadonlyMap<unknown, TextKind> = new Map([
  ["assistant", "assistant"],
  ["system", "system"],
]);

function* responseTexts(json: unknown): Generator<TextPlace> {
  const body = asObject(json);
  switch (body?.["type"]) {
    case "content_block_delta":
      yield* deltaTexts(asObject(body["delta"]) ?? {}, String(body["index"]));
      break;
    case "content_block_start":
      yield* startTexts(asObject(body["content_block"]) ?? {}, String(body["index"]));
      break;
    case "message_start":
      yield* contentTexts(asObject(body["message"])?.["content"], ["message", "content"], "assistant");
      break;
    default:
      yield* contentTexts(body?.["content"], ["content"], "assistant");
  }
}

/** Each delta type's member that extends its block's text; pieces have the block's number and kind. */
const DELTA_MEMBERS: ReadonlyMap<unknown, readonly [member: string, kind: TextKind]> = new Map([
  ["text_delta", ["text", "assistant"]],
  ["thinking_delta", ["thinking", "reasoning"]],
  ["input_json_delta", ["partial_json", "tool_call"]],
  ["compaction_delta", ["content", "assistant"]],
]);

function* deltaTexts(delta: JsonObject, index: string): Generator<TextPlace> {
  const textMember = DELTA_MEMBERS.get(delta["type"]);
  if (!textMember) yield* proseTexts(delta["citation"], ["delta", "citation"], "assistant");
  else if (typeof delta[textMember[0]] === "string") {
    const [member, kind] = textMember;
    const place = { path: ["delta", member], kind, piece: `${index} ${kind}` };
    yield kind === "tool_call" ? { ...place, json: true } : place;
  }
}

/** Members of an opened block whose text deltas extend; all other members are complete. */
const START_MEMBERS: ReadonlyMap<unknown, string> = new Map([
  ["text", "text"],
  ["thinking", "thinking"],
  ["compaction", "content"],
]);

function* startTexts(block: JsonObject, index: string): Generator<TextPlace> {
  const growingMember = START_MEMBERS.get(block["type"]);
  for (const place of blockTexts(block, ["content_block"], "assistant")) {
    const grows = place.path.length === 2 && place.path[1] === growingMember;
    yield grows ? { ...place, piece: `${index} ${place.kind}` } : place;
  }
}

/** Returns the texts of content, which is a string or a list of blocks. */
function* contentTexts(content: unknown, path: JsonPath, kind: TextKind): Generator<TextPlace> {
  if (typeof content === "string") yield { path, kind };
  for (const [i, block] of asList(content).entries()) yield* blockTexts(asObject(block) ?? {}, [...path, i], kind);
}

function* blockTexts(block: JsonObject, path: JsonPath, kind: TextKind): Generator<TextPlace> {
  const type = asText(block["type"]) ?? "";
  if (type.endsWith("tool_use")) {
    for (const { path: at } of stringsIn(block["input"], [...path, "input"])) yield { path: at, kind: "tool_call" };
  } else if (type === "thinking") {
    if (typeof block["thinking"] === "string") yield { path: [...path, "thinking"], kind: "reasoning" };
  } else yield* proseTexts(block, path, type.endsWith("tool_result") ? "tool_result" : kind);
}

/** Members with text by people, models and tools, in blocks, document sources and citations. */
const PROSE_MEMBERS: ReadonlySet<unknown> = new Set(
  "text title context content cited_text document_title stdout stderr".split(" "),
);

function* proseTexts(value: unknown, path: JsonPath, kind: TextKind): Generator<TextPlace> {
  for (const { path: at, holder } of stringsIn(value, path)) {
    const name = at.at(-1);
    if (PROSE_MEMBERS.has(name) || (name === "data" && holder["type"] === "text")) yield { path: at, kind };
  }
}

/** Positions of opaque state that only its provider can read, and what must be removed with it. */
export const opaque: OpaquePlaces = {
  find: opaquePlaces,
  consequences,
  lost: {
    // Other imitations of the protocol may think without the thoughts before a call.
    mayBeIn(body, target) {
      const thinking = body.value("thinking");
      const isRequired = refusesLackOfThinking(target) && requiresThinking(thinking, target.model);
      if (!isRequired && !(CLAUDE.test(target.model) && isByTokens(thinking))) return false;
      const messages = body.member("messages");
      if (!messages) return false;
      const bytes = body.slice(messages.start, messages.end);
      // A client that keeps some thoughts keeps all: its requests need not be parsed.
      return isRequired
        ? hasTurnWithoutThinking(bytes)
        : bytes.includes('"tool_result"') && !bytes.includes('thinking"');
    },
    *repairs(body, target) {
      const { model } = target;
      const messages = asList(body["messages"]).map((message) => asObject(message) ?? {});
      if (refusesLackOfThinking(target) && requiresThinking(body["thinking"], model))
        for (const [i, message] of messages.entries()) yield* thinkingOf(message, i, asList(message["content"]));
      if (CLAUDE.test(model) && isByTokens(body["thinking"]) && lacksThinking(messages))
        yield { path: ["thinking"], why: LOST_THINKING };
    },
  },
};

/** Reports whether no thinking stands between a turn of the assistant's and its next one, in the order in which clients write members. */
function hasTurnWithoutThinking(messages: Buffer): boolean {
  const turn = '"assistant"';
  for (let at = messages.indexOf(turn); at >= 0; ) {
    const next = messages.indexOf(turn, at + 1);
    const bytes = messages.subarray(at, next < 0 ? undefined : next);
    if (!bytes.includes('"thinking":') && !bytes.includes('"redacted_thinking"')) return true;
    at = next;
  }
  return false;
}

/**
 * Yields what stands for thinking in a turn of the assistant's that has none.
 * @param blocks those that remain of the message
 * @param at the place of the block: -1 puts it before the others
 */
function* thinkingOf(
  { role, content }: JsonObject,
  index: number,
  blocks: readonly unknown[],
  at = -1,
): Generator<OpaqueConsequence> {
  const path = ["messages", index, "content"];
  if (role !== "assistant" || blocks.some(isThinking)) return;
  if (blocks.length > 0) yield { path: [...path, at], json: JSON.stringify(NO_THINKING_BLOCK) };
  else if (typeof content === "string" && content !== "")
    yield { path, json: JSON.stringify([NO_THINKING_BLOCK, { type: "text", text: content }]) };
}

/** Reports whether a model refuses a turn of the assistant's without thinking. */
const requiresThinking = (thinking: unknown, model: string): boolean =>
  needsThinking({ model }) && asObject(thinking)?.["type"] !== "disabled";

const isByTokens = (thinking: unknown): boolean => asObject(thinking)?.["type"] === "enabled";

/** Each block type's member for such state. The state of a call or a text is a separate block, too. */
const STATE_MEMBERS: ReadonlyMap<unknown, string> = new Map([
  ["thinking", "signature"],
  ["redacted_thinking", "data"],
]);

function* opaquePlaces(body: JsonObject): Generator<OpaquePlace> {
  for (const [i, message] of asList(body["messages"]).entries())
    yield* opaqueWithin(asObject(message)?.["content"], ["messages", i, "content"]);
}

function* opaqueWithin(content: unknown, path: JsonPath): Generator<OpaquePlace> {
  for (const [i, value] of asList(content).entries()) {
    const block = asObject(value);
    const member = STATE_MEMBERS.get(block?.["type"]);
    const span = [...path, i];
    if (member !== undefined && typeof block?.[member] === "string") yield { path: [...span, member], span };
    yield* keysWithin(block?.["citations"], [...span, "citations"], "encrypted_index");
    if (block?.["type"] === SEARCH_RESULT)
      yield* keysWithin(block["content"], [...span, "content"], "encrypted_content");
  }
}

/** Yields the keys of citations, or of what a search found: only the vendor can read them, and it refuses others. [D: Claude Code] */
function* keysWithin(list: unknown, path: JsonPath, member: string): Generator<OpaquePlace> {
  for (const [i, value] of asList(list).entries())
    if (typeof asObject(value)?.[member] === "string")
      yield { path: [...path, i, member], span: [...path, i], isFound: true };
}

/** Removes messages without blocks, and thinking by tokens that would continue from missing thoughts, or puts others in their place. */
function* consequences(
  body: JsonObject,
  removedPaths: readonly JsonPath[],
  { model }: { model: string },
): Generator<OpaqueConsequence> {
  const isRequired = requiresThinking(body["thinking"], model);
  const removed = new Set(removedPaths.map((path) => path.join(" ")));
  const remaining: JsonObject[] = [];
  for (const [i, value] of asList(body["messages"]).entries()) {
    const message = asObject(value) ?? {};
    const content = asList(message["content"]);
    const blocks = content.filter((_, j) => !removed.has(`messages ${i} content ${j}`));
    if (blocks.length === 0 && content.length > 0) yield { path: ["messages", i] };
    else remaining.push({ ...message, content: blocks });
    if (isRequired) yield* thinkingOf(message, i, blocks, removed.has(`messages ${i} content 0`) ? 0 : -1);
  }
  if (!isRequired && isByTokens(body["thinking"]) && isThinkingLost(remaining))
    yield { path: ["thinking"], why: LOST_THINKING };
}
