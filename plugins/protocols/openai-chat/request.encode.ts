import {
  type Conversation,
  defined,
  type EncodeContext,
  type EncodedRequest,
  type Format,
  type JsonObject,
  pathOfUse,
  writeJson,
} from "model-gateway/protocol";
import { effortFor, label, wholeCacheOf } from "../openai/request.encode.ts";
import { tierOf } from "../openai/wire.ts";
import { chat } from "./operation.ts";
import { messagesOf } from "./request.encode.messages.ts";
import { toolMembers } from "./request.encode.tools.ts";
import { type BodyNative, SAME } from "./request.native.ts";

const MOST_STOPS = 4;

/** Writes a Chat request. @throws GatewayError as `terms.refuse` makes it. */
export function encodeRequest(conversation: Conversation, terms: EncodeContext): EncodedRequest {
  const native = conversation.native as BodyNative | undefined;
  const body = native ? sameBody(conversation, terms.model, native) : newBody(conversation, terms);
  return { operation: chat, body: writeJson(body) };
}

function newBody(conversation: Conversation, terms: EncodeContext): JsonObject {
  if (terms.facts.prefill === false) refusePrefill(conversation, terms);
  const messages = messagesOf(conversation, terms);
  const body = { model: terms.model, messages, ...settings(conversation, terms) };
  // A stream without its usage could not be accounted for.
  return conversation.stream ? { ...body, stream: true, stream_options: { include_usage: true } } : body;
}

/** The body as it was read: what the vocabulary carries, and what else stood there. */
function sameBody(conversation: Conversation, model: string, native: BodyNative): JsonObject {
  const messages = messagesOf(conversation, SAME);
  return { model, messages, ...sameSettings(conversation, native), ...native.rest };
}

/** All members but the messages as the vocabulary carries them. */
export const sameSettings = (conversation: Conversation, native: BodyNative): JsonObject => ({
  ...settings(conversation, SAME, native),
  ...(conversation.stream ? { stream: true } : {}),
});

const settings = (conversation: Conversation, terms: EncodeContext, native?: BodyNative): JsonObject => ({
  ...toolMembers(conversation, terms, native),
  ...sampling(conversation, terms, native),
  ...thinking(conversation, terms, native),
  ...wishes(conversation, terms, native),
});

function refusePrefill(conversation: Conversation, terms: EncodeContext): void {
  const last = conversation.uses.find(({ feature }) => feature === "prefill");
  if (last) terms.refuse(last.path, "This model does not continue an assistant's message at the end");
}

function sampling(conversation: Conversation, terms: EncodeContext, native?: BodyNative): JsonObject {
  const { temperature, topP, frequencyPenalty, presencePenalty, seed, choices, logprobs, stop } = conversation;
  const members: JsonObject = {};
  const put = (name: string, value: unknown) => {
    if (value !== undefined) members[name] = value;
  };
  if (!native && temperature !== undefined && temperature > 2)
    terms.refuse(pathOfUse(conversation, "temperature"), "the temperature goes from 0 to 2");
  const drawn = terms.facts.sampling !== false || native !== undefined;
  if (drawn) put("temperature", temperature);
  else if (temperature !== undefined)
    terms.drop(pathOfUse(conversation, "temperature"), "This model takes no sampling");
  if (drawn) put("top_p", topP);
  else if (topP !== undefined) terms.drop(pathOfUse(conversation, "top_p"), "This model takes no sampling");
  if (native) put("top_k", conversation.topK);
  if (native) put("logit_bias", conversation.logitBias);
  put("frequency_penalty", frequencyPenalty);
  put("presence_penalty", presencePenalty);
  put("seed", seed);
  put("n", choices);
  put(String(native?.forms["max"] ?? "max_completion_tokens"), conversation.maxTokens);
  if (conversation.maxTokens === 0 && !native)
    terms.refuse(pathOfUse(conversation, "max_tokens"), "Chat Completions always answers with a token or more");
  if (stop && stop.length > MOST_STOPS && !native)
    terms.refuse(pathOfUse(conversation, "stop"), `Chat Completions takes at most ${MOST_STOPS} stop sequences`);
  if (stop && (stop.length > 0 || native)) put("stop", native?.forms["stop"] === "string" ? stop[0] : stop);
  if (logprobs !== undefined) put("logprobs", true);
  if (logprobs !== undefined && (native ? native.forms["top_logprobs"] : logprobs > 0)) put("top_logprobs", logprobs);
  return members;
}

function thinking(conversation: Conversation, terms: EncodeContext, native?: BodyNative): JsonObject {
  const { reasoning } = conversation;
  if (native) return sameThinking(conversation, native);
  if (!reasoning) return {};
  const { effort, budget } = reasoning;
  if (terms.facts.thinking === "none") {
    const uses = effort === undefined ? "reasoning_budget" : "reasoning_effort";
    if (effort !== "none" && budget !== 0) terms.drop(pathOfUse(conversation, uses), "This model does not think");
    return {};
  }
  if (effort !== undefined) return { reasoning_effort: effort };
  const nearest = budget === undefined ? undefined : effortFor(budget);
  if (nearest === undefined) return {};
  terms.change(
    pathOfUse(conversation, "reasoning_budget"),
    `${budget} tokens of thinking are asked for as the effort ${nearest}`,
  );
  return { reasoning_effort: nearest };
}

function sameThinking({ reasoning }: Conversation, native: BodyNative): JsonObject {
  if (!native.forms["reasoning"]) return reasoning?.effort === undefined ? {} : { reasoning_effort: reasoning.effort };
  return { reasoning: defined({ effort: reasoning?.effort, max_tokens: reasoning?.budget }) };
}

function wishes(conversation: Conversation, terms: EncodeContext, native?: BodyNative): JsonObject {
  const { format, verbosity, cacheKey, cache, user, metadata, tier, store, modalities } = conversation;
  const members: JsonObject = {};
  if (format && (format.kind !== "text" || native)) members["response_format"] = formatOf(format);
  if (verbosity !== undefined) members["verbosity"] = verbosity;
  if (cacheKey !== undefined)
    members["prompt_cache_key"] = native ? cacheKey : label(cacheKey, pathOfUse(conversation, "cache_key"), terms);
  const whole = cache && !native ? wholeCacheOf(cache) : undefined;
  if (whole) members["prompt_cache_options"] = whole;
  if (user !== undefined) {
    const name = String(native?.forms["user"] ?? "user");
    members[name] = native ? user : label(user, pathOfUse(conversation, "user"), terms);
  }
  if (metadata && (native || store)) members["metadata"] = metadata;
  else if (metadata && Object.keys(metadata).length > 0)
    terms.drop(pathOfUse(conversation, "metadata"), "Chat Completions takes labels only for answers that it keeps");
  const word = tier === undefined || native ? tier : tierOf(tier);
  if (word !== undefined) members["service_tier"] = word;
  else if (tier !== undefined)
    terms.drop(pathOfUse(conversation, "tier"), `Chat Completions has no service tier ${tier}`);
  if (native && store !== undefined) members["store"] = store;
  if (native && modalities) members["modalities"] = modalities;
  return members;
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
