import {
  asCount,
  asList,
  asObject,
  asText,
  isJsonText,
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
  type NamedModel,
  NO_REASONING,
  needsReasoning,
  REASONING_MEMBERS,
  refusedReasoning,
  refusesLackOfReasoning,
} from "./support.models.ts";
import { ENVELOPE_FORMAT, LEGACY_CALL } from "./wire.ts";

/** Positions of human text in requests, complete responses and chunks. */
export const texts: NonNullable<Protocol["texts"]> = {
  request: requestTexts,
  response: responseTexts,
  names: {
    containers: [
      "messages",
      "prediction",
      "content",
      "reasoning_details",
      "annotations",
      "url_citation",
      "audio",
      "tool_calls",
      "function_call",
      "function",
      "custom",
      "thinking",
    ],
    members: [
      "role",
      "type",
      "refusal",
      "reasoning_content",
      "reasoning",
      "text",
      "summary",
      "title",
      "transcript",
      "input",
      "arguments",
    ],
  },
};

const KINDS: ReadonlyMap<unknown, TextKind> = new Map([
  ["assistant", "assistant"],
  ["system", "system"],
  ["developer", "system"],
  ["tool", "tool_result"],
  ["function", "tool_result"],
]);

function* requestTexts(body: unknown): Generator<TextPlace> {
  const { messages, prediction } = asObject(body) ?? {};
  for (const [i, value] of asList(messages).entries()) {
    const message = asObject(value) ?? {};
    yield* messageTexts(message, ["messages", i], KINDS.get(message["role"]) ?? "user");
  }
  yield* contentTexts(asObject(prediction)?.["content"], ["prediction", "content"], "user");
}

function* responseTexts(json: unknown): Generator<TextPlace> {
  const { choices, search_results } = asObject(json) ?? {};
  for (const [i, value] of asList(choices).entries()) {
    const { index, message, delta, text } = asObject(value) ?? {};
    const choice = `${asCount(index) ?? i}`;
    const at = ["choices", i];
    for (const place of messageTexts(asObject(message) ?? {}, [...at, "message"], "assistant"))
      yield withAlternative(place, choice);
    for (const place of messageTexts(asObject(delta) ?? {}, [...at, "delta"], "assistant", choice))
      yield withAlternative(place, choice);
    // Together sends each text twice.
    const alternative = { of: `${choice} content`, member: "text" };
    if (typeof text === "string")
      yield { ...withPiece({ path: [...at, "text"], kind: "assistant" }, choice, "text"), alternative };
  }
  // Perplexity's sources.
  for (const [i, source] of asList(search_results).entries())
    yield* memberTexts(source, ["title", "snippet"], ["search_results", i], "tool_result");
}

/** Members of a message that some vendors fill with one text, and its name. */
const ALTERNATIVES: ReadonlyMap<unknown, string> = new Map([
  ["content", "content"],
  ["reasoning_content", "reasoning"],
  ["reasoning", "reasoning"],
  ["reasoning_details", "reasoning"],
]);

/** Marks a text of a choice's message or delta that may be repeated in another member. */
function withAlternative(place: TextPlace, choice: string): TextPlace {
  const [, , , member] = place.path;
  const of = ALTERNATIVES.get(member);
  // Parts of content have texts of their own.
  const isPart = member === "content" && place.path.length > 4;
  if (of === undefined || isPart) return place;
  return { ...place, alternative: { of: `${choice} ${of}`, member: String(member) } };
}

/** Yields the texts of a message or delta. @param choice of a delta: its number, part of the names of streamed texts */
function* messageTexts(message: JsonObject, at: JsonPath, kind: TextKind, choice?: string): Generator<TextPlace> {
  yield* contentTexts(message["content"], [...at, "content"], kind, choice);
  for (const name of ["refusal", "reasoning_content", "reasoning"])
    if (typeof message[name] === "string")
      yield withPiece({ path: [...at, name], kind: name === "refusal" ? kind : "reasoning" }, choice, name);
  for (const [n, value] of asList(message["reasoning_details"]).entries()) {
    const entry = asObject(value) ?? {};
    for (const name of ["text", "summary"])
      for (const place of memberTexts(entry, [name], [...at, "reasoning_details", n], "reasoning"))
        yield withPiece(
          place,
          choice,
          `reasoning_details ${asText(entry["type"])} ${asCount(entry["index"]) ?? n} ${name}`,
        );
  }
  for (const [n, annotation] of asList(message["annotations"]).entries()) {
    const source = asObject(annotation)?.["url_citation"];
    yield* memberTexts(source, ["title", "content"], [...at, "annotations", n, "url_citation"], kind);
  }
  for (const place of memberTexts(message["audio"], ["transcript"], [...at, "audio"], kind))
    yield withPiece(place, choice, "transcript");
  yield* callTexts(message, at, choice);
}

/** Yields the texts of content: a string, or a list of strings and parts. */
function* contentTexts(content: unknown, at: JsonPath, kind: TextKind, choice?: string): Generator<TextPlace> {
  if (typeof content === "string") yield withPiece({ path: at, kind }, choice, "content");
  for (const [n, part] of asList(content).entries()) {
    const path = [...at, n];
    if (typeof part === "string") yield withPiece({ path, kind }, choice, "content");
    for (const place of memberTexts(part, ["text", "refusal"], path, kind))
      yield withPiece(place, choice, place.path.at(-1) === "text" ? "content" : "refusal");
    const thinking = asObject(part)?.["thinking"];
    if (typeof thinking === "string")
      yield withPiece({ path: [...path, "thinking"], kind: "reasoning" }, choice, "thinking");
    for (const [m, piece] of asList(thinking).entries()) {
      const piecePath = [...path, "thinking", m];
      if (typeof piece === "string") yield withPiece({ path: piecePath, kind: "reasoning" }, choice, "thinking");
      for (const place of memberTexts(piece, ["text"], piecePath, "reasoning"))
        yield withPiece(place, choice, "thinking");
    }
  }
}

function* callTexts(message: JsonObject, at: JsonPath, choice?: string): Generator<TextPlace> {
  for (const [n, value] of asList(message["tool_calls"]).entries()) {
    const call = asObject(value) ?? {};
    const piece = `tool_calls ${asCount(call["index"]) ?? asText(call["id"]) ?? n}`;
    const path = [...at, "tool_calls", n];
    yield* argumentTexts(call["function"], [...path, "function"], choice, piece);
    for (const place of memberTexts(call["custom"], ["input"], [...path, "custom"], "tool_call"))
      yield withPiece(place, choice, piece);
  }
  yield* argumentTexts(message[LEGACY_CALL], [...at, LEGACY_CALL], choice, LEGACY_CALL);
}

/** Yields the arguments of a call: JSON text, or from some vendors an object. */
function* argumentTexts(call: unknown, at: JsonPath, choice: string | undefined, piece: string): Generator<TextPlace> {
  const { arguments: input, name } = asObject(call) ?? {};
  const path = [...at, "arguments"];
  if (typeof input !== "string")
    for (const { path: at } of stringsIn(input, path)) yield { path: at, kind: "tool_call" };
  else {
    const place: TextPlace = { path, kind: "tool_call", json: true };
    // Google's compatible API has sent the index 0 for every call, but each call in one piece.
    yield name !== undefined && isJsonText(input) ? place : withPiece(place, choice, piece);
  }
}

/** Yields those of the named members that are strings. */
function* memberTexts(value: unknown, names: readonly string[], at: JsonPath, kind: TextKind): Generator<TextPlace> {
  const object = asObject(value);
  for (const name of names) if (typeof object?.[name] === "string") yield { path: [...at, name], kind };
}

/** Adds the name of the streamed text that a string in a delta is a piece of. */
const withPiece = (place: TextPlace, choice: string | undefined, piece: string): TextPlace =>
  choice === undefined ? place : { ...place, piece: `${choice} ${piece}` };

/** Positions of opaque state in requests, which only the provider that created it can read. */
export const opaque: OpaquePlaces = {
  find: opaquePlaces,
  *consequences(body, removedPaths, target) {
    const withoutReasoning = new Set<number>();
    for (const consequence of removedReasoning(body, removedPaths)) {
      withoutReasoning.add(consequence.path[1] as number);
      yield consequence;
    }
    if (requiresReasoning(body["tools"], body["thinking"], target))
      yield* missingReasoning(body, target, withoutReasoning);
    yield* unwantedReasoning(body, target, withoutReasoning);
  },
  lost: {
    mayBeIn(body, target) {
      const refused = refusedReasoning(target);
      const isLackRefused = refusesLackOfReasoning(target) && body.member("tools") !== undefined;
      const messages = refused.length > 0 || isLackRefused ? body.member("messages") : undefined;
      if (!messages) return false;
      const bytes = body.slice(messages.start, messages.end);
      return isLackRefused ? hasTurnWithoutReasoning(bytes) : refused.some((name) => bytes.includes(`"${name}"`));
    },
    *repairs(body, target) {
      yield* unwantedReasoning(body, target);
      if (refusesLackOfReasoning(target) && requiresReasoning(body["tools"], body["thinking"], target))
        yield* missingReasoning(body, target);
    },
  },
};

/** Reports whether the assistant's messages of a request need their reasoning: with tools, unless the model is not to reason. [D] */
const requiresReasoning = (tools: unknown, thinking: unknown, target: NamedModel): boolean =>
  needsReasoning(target) && asList(tools).length > 0 && asObject(thinking)?.["type"] !== "disabled";

const REASONING = '"reasoning_content":';

/**
 * Reports whether no reasoning stands between a message of the assistant's and its next one: clients that keep some keep all, and
 * their requests need not be parsed.
 */
function hasTurnWithoutReasoning(messages: Buffer): boolean {
  const turn = '"assistant"';
  for (let at = messages.indexOf(turn); at >= 0; ) {
    const next = messages.indexOf(turn, at + 1);
    const reasoning = messages.subarray(at, next < 0 ? undefined : next);
    const start = reasoning.indexOf(REASONING) + REASONING.length;
    if (start < REASONING.length || !/^ ?"[^"]/.test(reasoning.toString("latin1", start, start + 3))) return true;
    at = next;
  }
  return false;
}

/** Yields what stands for reasoning in the assistant's messages that have none. @param emptied messages whose reasoning is removed */
function* missingReasoning(
  { messages }: JsonObject,
  target: NamedModel,
  emptied: ReadonlySet<number> = new Set(),
): Generator<OpaqueConsequence> {
  // The vendors themselves do not know the names that other servers have for it.
  const [own] = REASONING_MEMBERS;
  const members = refusesLackOfReasoning(target) ? [own] : REASONING_MEMBERS;
  for (const [i, value] of asList(messages).entries()) {
    const message = asObject(value) ?? {};
    if (message["role"] !== "assistant") continue;
    if (emptied.has(i) || !members.some((name) => message[name]))
      yield { path: ["messages", i, own], json: JSON.stringify(NO_REASONING) };
  }
}

/** Yields reasoning that the target refuses, whoever made it. @param emptied messages whose reasoning is removed already */
function* unwantedReasoning(
  { messages }: JsonObject,
  target: NamedModel,
  emptied: ReadonlySet<number> = new Set(),
): Generator<OpaqueConsequence> {
  const refused = refusedReasoning(target);
  if (refused.length === 0) return;
  for (const [i, value] of asList(messages).entries()) {
    const message = asObject(value) ?? {};
    if (message["role"] !== "assistant" || emptied.has(i)) continue;
    for (const name of refused)
      if (name in message) yield { path: ["messages", i, name], why: "the provider refuses other models' reasoning" };
  }
}

function* opaquePlaces(body: JsonObject): Generator<OpaquePlace> {
  for (const [i, value] of asList(body["messages"]).entries()) {
    const message = asObject(value);
    if (!message) continue;
    for (const [n, entry] of asList(message["reasoning_details"]).entries()) {
      const span = ["messages", i, "reasoning_details", n];
      for (const { path } of memberTexts(entry, ["signature", "data"], span, "reasoning")) yield { path, span };
    }
    for (const [n, call] of asList(message["tool_calls"]).entries())
      yield* stateOnCall(asObject(call) ?? {}, ["messages", i, "tool_calls", n]);
  }
}

/** Yields the signature on a call. It is removed with the objects that contain nothing else; the call remains. */
function* stateOnCall({ extra_content }: JsonObject, call: JsonPath): Generator<OpaquePlace> {
  const extra = asObject(extra_content);
  const google = asObject(extra?.["google"]);
  if (!extra || typeof google?.["thought_signature"] !== "string") return;
  const path = [...call, "extra_content", "google", "thought_signature"];
  const emptyParents = Object.keys(google).length > 1 ? 0 : Object.keys(extra).length > 1 ? 1 : 2;
  yield { path, span: path.slice(0, path.length - emptyParents) };
}

/**
 * Yields what must be removed with entries of `reasoning_details`: the gateway's entries that contained their text, the
 * members that repeat the text, the list if nothing remains in it, and a message that has nothing else.
 */
function* removedReasoning({ messages }: JsonObject, removedPaths: readonly JsonPath[]): Generator<OpaqueConsequence> {
  const removedEntries = new Map<number, Set<number>>();
  for (const [, i, name, n] of removedPaths as [string, number, string, number][])
    if (name === "reasoning_details") removedEntries.set(i, (removedEntries.get(i) ?? new Set()).add(n));
  for (const [i, entries] of removedEntries) {
    const path = ["messages", i];
    const message = asObject(asList(messages)[i]) ?? {};
    let remaining = 0;
    for (const [n, entry] of asList(message["reasoning_details"]).entries())
      if (isEmptyEnvelope(entry)) yield { path: [...path, "reasoning_details", n] };
      else if (!entries.has(n)) remaining++;
    if (remaining === 0) yield { path: isEmptyMessage(message) ? path : [...path, "reasoning_details"] };
    for (const name of ["reasoning_content", "reasoning"])
      if (typeof message[name] === "string") yield { path: [...path, name] };
  }
}

/** Reports whether an entry is the gateway's and has only the text of another entry's state. */
function isEmptyEnvelope(value: unknown): boolean {
  const entry = asObject(value);
  return entry?.["format"] === ENVELOPE_FORMAT && !asText(entry["signature"]) && !asText(entry["data"]);
}

/** Reports whether a message has nothing besides its reasoning. */
function isEmptyMessage({ content, tool_calls, ...message }: JsonObject): boolean {
  const contentLength = typeof content === "string" || Array.isArray(content) ? content.length : 0;
  const others = ["refusal", LEGACY_CALL, "audio", "extra_content", "thought_signature"];
  return contentLength === 0 && asList(tool_calls).length === 0 && others.every((name) => !message[name]);
}
