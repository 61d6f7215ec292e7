import {
  asObject,
  type Conversation,
  type Effort,
  entryOf,
  type Feature,
  type FinishReason,
  type JsonObject,
  type Opaque,
  type RawJson,
} from "model-gateway/protocol";

/** The protocol's name, on opaque state and on what only it understands. */
export const NAME = "anthropic-messages";

/** The vendor's word for each way to end. */
export const STOP_REASONS: Readonly<Record<FinishReason, string>> = {
  stop: "end_turn",
  length: "max_tokens",
  tool_calls: "tool_use",
  content_filter: "refusal",
  refusal: "refusal",
  stop_sequence: "stop_sequence",
  pause: "pause_turn",
  context_window: "model_context_window_exceeded",
  malformed_call: "end_turn",
  other: "end_turn",
};

const REASONS: Readonly<Record<string, FinishReason>> = {
  end_turn: "stop",
  max_tokens: "length",
  stop_sequence: "stop_sequence",
  tool_use: "tool_calls",
  pause_turn: "pause",
  refusal: "refusal",
  model_context_window_exceeded: "context_window",
};

/** What a `stop_reason` means; `other` for a word that is not known yet. */
export const reasonOf = (word: string): FinishReason => entryOf(REASONS, word) ?? "other";

/** Tokens for thinking that stand for an effort, where a model takes tokens only; `max` is as much as fits. */
export const BUDGETS: Readonly<Record<Exclude<Effort, "none">, number>> = {
  minimal: 1024,
  low: 4096,
  medium: 12_288,
  high: 24_576,
  xhigh: 32_768,
  max: Number.MAX_SAFE_INTEGER,
};

const LADDER = ["minimal", "low", "medium", "high"] as const;

/** The effort that stands for a number of tokens, where a model takes efforts only. */
export function effortOf(budget: number): Effort {
  const least = LADDER.find((effort) => budget <= BUDGETS[effort]);
  return least ?? "xhigh";
}

/** The kinds of opaque state: on a thinking block, and a block of which nothing can be read. */
export type OpaqueKind = "signature" | "redacted";

/** State of that kind that this protocol's vendor made: the very string; undefined for all other. */
export const stateOf = (opaque: Opaque | undefined, kind: OpaqueKind): string | undefined =>
  opaque?.protocol === NAME && opaque.kind === kind ? opaque.data : undefined;

/** The client's own path of what it said of a feature, or of the next of the features. */
export function pathOf(conversation: Conversation, ...features: [Feature, ...Feature[]]): string {
  for (const feature of features) {
    const uses = conversation.uses.find((each) => each.feature === feature);
    if (uses) return uses.path;
  }
  return features[0];
}

/** The object without some members; undefined when nothing is left. */
export function without(object: JsonObject, names: readonly string[]): JsonObject | undefined {
  let rest: JsonObject | undefined;
  for (const name in object) {
    if (names.includes(name)) continue;
    rest ??= {};
    if (name === "__proto__") rest = { ...rest, [name]: object[name] };
    else rest[name] = object[name];
  }
  return rest;
}

/** True when the text is a JSON object. */
export function isObject(json: RawJson): boolean {
  try {
    return asObject(json.value) !== undefined;
  } catch {
    return false;
  }
}
