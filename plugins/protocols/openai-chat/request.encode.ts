import { createHash } from "node:crypto";
import {
  type Conversation,
  type Effort,
  type Encoded,
  entryOf,
  type Feature,
  type Format,
  type JsonObject,
  type Names,
  type Terms,
  writeJson,
} from "model-gateway";
import { chat } from "./operation.ts";
import { messagesOf } from "./request.encode.messages.ts";
import { toolMembers } from "./request.encode.tools.ts";
import type { BodyNative } from "./request.native.ts";

/** Thinking tokens up to which an effort stands; Google's own table has low at 1k, medium at 8k and high at 24k. */
const BUDGETS: readonly (readonly [most: number, effort: Effort])[] = [
  [0, "none"],
  [1024, "minimal"],
  [4096, "low"],
  [12_288, "medium"],
  [24_576, "high"],
];
const TIERS: Readonly<Record<string, string>> = {
  auto: "auto",
  default: "default",
  standard: "default",
  standard_only: "default",
  flex: "flex",
  priority: "priority",
  scale: "scale",
  fast: "fast",
};
const MOST_STOPS = 4;
const LONGEST_USER = 64;

/** Names that stay as they are: a request of this protocol's own. */
const AS_IS: Names = { fit: (name) => name, back: (name) => name, mark: () => {}, original: (name) => ({ name }) };

/** Writes a Chat request. @throws GatewayError as `terms.refuse` makes it. */
export function encodeRequest(conversation: Conversation, terms: Terms): Encoded {
  const native = conversation.native as BodyNative | undefined;
  const body = native ? sameBody(conversation, terms, native) : newBody(conversation, terms);
  return { operation: chat, body: writeJson(body) };
}

function newBody(conversation: Conversation, terms: Terms): JsonObject {
  if (terms.facts.prefill === false) refusePrefill(conversation, terms);
  const body = members(conversation, terms);
  // A stream without its usage could not be accounted for.
  return conversation.stream ? { ...body, stream: true, stream_options: { include_usage: true } } : body;
}

/** The body as it was read: what the vocabulary carries, and what else stood there. */
function sameBody(conversation: Conversation, terms: Terms, native: BodyNative): JsonObject {
  const { client, model, facts } = terms;
  const same: Terms = {
    client,
    model,
    facts,
    names: AS_IS,
    drop: (path, why) => terms.drop(path, why),
    change: (path, why) => terms.change(path, why),
    refuse: (path, why) => terms.refuse(path, why),
  };
  const stream = conversation.stream && !("stream" in native.rest) ? { stream: true } : {};
  return { ...members(conversation, same, native), ...stream, ...native.rest };
}

const members = (conversation: Conversation, terms: Terms, native?: BodyNative): JsonObject => ({
  model: terms.model,
  messages: messagesOf(conversation, terms),
  ...toolMembers(conversation, terms),
  ...sampling(conversation, terms, native),
  ...thinking(conversation, terms, native),
  ...wishes(conversation, terms, native),
});

/** Where the client said a feature, for messages about it. */
const pathOf = ({ said }: Conversation, feature: Feature): string =>
  said.find((each) => each.feature === feature)?.path ?? feature;

function refusePrefill(conversation: Conversation, terms: Terms): void {
  const last = conversation.said.find(({ feature }) => feature === "prefill");
  if (last) terms.refuse(last.path, "This model does not continue an assistant's message at the end");
}

function sampling(conversation: Conversation, terms: Terms, native?: BodyNative): JsonObject {
  const { temperature, topP, frequencyPenalty, presencePenalty, seed, choices, logprobs, stop } = conversation;
  const members: JsonObject = {};
  const put = (name: string, value: unknown) => {
    if (value !== undefined) members[name] = value;
  };
  const drawn = terms.facts.sampling !== false || native !== undefined;
  if (drawn) put("temperature", temperature);
  else if (temperature !== undefined) terms.drop(pathOf(conversation, "temperature"), "This model takes no sampling");
  if (drawn) put("top_p", topP);
  else if (topP !== undefined) terms.drop(pathOf(conversation, "top_p"), "This model takes no sampling");
  if (native) put("top_k", conversation.topK);
  if (native) put("logit_bias", conversation.logitBias);
  put("frequency_penalty", frequencyPenalty);
  put("presence_penalty", presencePenalty);
  put("seed", seed);
  put("n", choices);
  put(String(native?.forms["max"] ?? "max_completion_tokens"), conversation.maxTokens);
  if (conversation.maxTokens === 0 && !native)
    terms.refuse(pathOf(conversation, "max_tokens"), "Chat Completions always answers with a token or more");
  if (stop && stop.length > MOST_STOPS && !native)
    terms.refuse(pathOf(conversation, "stop"), `Chat Completions takes at most ${MOST_STOPS} stop sequences`);
  if (stop && (stop.length > 0 || native)) put("stop", native?.forms["stop"] === "string" ? stop[0] : stop);
  if (logprobs !== undefined) put("logprobs", true);
  if (logprobs !== undefined && (native ? native.forms["top_logprobs"] : logprobs > 0)) put("top_logprobs", logprobs);
  return members;
}

function thinking(conversation: Conversation, terms: Terms, native?: BodyNative): JsonObject {
  const { reasoning } = conversation;
  if (native) return sameThinking(conversation, native);
  if (!reasoning) return {};
  const { effort, budget } = reasoning;
  if (terms.facts.thinking === "none") {
    const said = effort === undefined ? "reasoning_budget" : "reasoning_effort";
    if (effort !== "none" && budget !== 0) terms.drop(pathOf(conversation, said), "This model does not think");
    return {};
  }
  if (effort !== undefined) return { reasoning_effort: effort };
  if (budget === undefined || budget < 0) return {};
  const nearest = BUDGETS.find(([most]) => budget <= most)?.[1] ?? "xhigh";
  terms.change(
    pathOf(conversation, "reasoning_budget"),
    `${budget} tokens of thinking are asked for as the effort ${nearest}`,
  );
  return { reasoning_effort: nearest };
}

function sameThinking({ reasoning }: Conversation, native: BodyNative): JsonObject {
  if (!native.forms["reasoning"]) return reasoning?.effort === undefined ? {} : { reasoning_effort: reasoning.effort };
  const rest = (native.forms["reasoning.rest"] ?? {}) as JsonObject;
  const nested: JsonObject = { ...rest };
  if (reasoning?.effort !== undefined && !native.forms["reasoning.enabled"]) nested["effort"] = reasoning.effort;
  if (reasoning?.budget !== undefined) nested["max_tokens"] = reasoning.budget;
  return { reasoning: nested };
}

function wishes(conversation: Conversation, terms: Terms, native?: BodyNative): JsonObject {
  const { format, verbosity, cacheKey, cache, user, metadata, tier, store, modalities } = conversation;
  const members: JsonObject = {};
  if (format && (format.kind !== "text" || native)) members["response_format"] = formatOf(format);
  if (verbosity !== undefined) members["verbosity"] = verbosity;
  if (cacheKey !== undefined) members["prompt_cache_key"] = cacheKey;
  // The vendor marks the whole prompt by itself; only for how long has to be said.
  if (cache?.ttl !== undefined && cache.ttl !== "5m" && !native)
    members["prompt_cache_options"] = { mode: "implicit", ttl: cache.ttl === "30m" ? "30m" : "12h" };
  if (user !== undefined) {
    const name = String(native?.forms["user"] ?? "user");
    members[name] = native ? user : userOf(user, conversation, terms);
  }
  if (metadata && (native || store)) members["metadata"] = metadata;
  else if (metadata && Object.keys(metadata).length > 0)
    terms.drop(pathOf(conversation, "metadata"), "Chat Completions takes labels only for answers that it keeps");
  const word = tier === undefined || native ? tier : entryOf(TIERS, tier.toLowerCase());
  if (word !== undefined) members["service_tier"] = word;
  else if (tier !== undefined) terms.drop(pathOf(conversation, "tier"), `Chat Completions has no service tier ${tier}`);
  if (native && store !== undefined) members["store"] = store;
  if (native && modalities) members["modalities"] = modalities;
  return members;
}

/** OpenAI takes at most 64 characters; a hash still tells users apart. */
function userOf(user: string, conversation: Conversation, terms: Terms): string {
  if (user.length <= LONGEST_USER) return user;
  terms.change(pathOf(conversation, "user"), `A name of more than ${LONGEST_USER} characters is sent as its hash`);
  return createHash("sha256").update(user).digest("hex").slice(0, LONGEST_USER);
}

function formatOf({ kind, schema, name, description, strict }: Format): JsonObject {
  if (kind !== "schema") return { type: kind === "json" ? "json_object" : "text" };
  const inner = {
    name: name ?? "answer",
    ...(description === undefined ? {} : { description }),
    ...(schema === undefined ? {} : { schema }),
    ...(strict === undefined ? {} : { strict }),
  };
  return { type: "json_schema", json_schema: inner };
}
