import {
  type Conversation,
  type Effort,
  type EncodeContext,
  type EncodedRequest,
  type Feature,
  type Format,
  type JsonObject,
  type ReasoningConfig,
  type Turn,
  writeJson,
} from "model-gateway/protocol";
import { effortFor, wholeCacheOf } from "../openai/request.encode.ts";
import { tierOf } from "../openai/wire.ts";
import { ENCRYPTED, LOGPROBS, type MessageNative, type RequestNative } from "./request.native.ts";
import { INPUT_TOKENS, RESPONSE } from "./request.operations.ts";
import { merged, Writing } from "./request.write.ts";
import { writeItems } from "./request.write-items.ts";
import { writeChoice, writeEntries, writeTools } from "./request.write-tools.ts";

/** Members that may stand in a request to count tokens. [S: InputTokenCountParams] */
const COUNTED = new Set([
  "model",
  "instructions",
  "input",
  "tools",
  "tool_choice",
  "text",
  "reasoning",
  "parallel_tool_calls",
]);

/** Writes a request for a vendor. @throws GatewayError as `terms.refuse` makes it */
export function encode(conversation: Conversation, terms: EncodeContext): EncodedRequest {
  const writing = new Writing(conversation, terms);
  const native = writing.native<RequestNative>(conversation);
  checkPrefill(writing);
  const body = merged(native?.rest, {
    model: terms.model,
    ...writeInput(writing, native),
    ...writeToolbox(writing, native),
    ...writeSampling(writing),
    ...writeWishes(writing, native),
    ...writeLabels(writing, native),
    ...(conversation.stream && { stream: true }),
  });
  if (conversation.task === "generate") return { operation: RESPONSE, body: writeJson(body) };
  const counted = Object.entries(body).filter(([name]) => native !== undefined || COUNTED.has(name));
  return { operation: INPUT_TOKENS, body: writeJson(Object.fromEntries(counted)) };
}

/** A model that is not known to go on from an assistant's turn at the end may answer it with a new message. */
function checkPrefill({ conversation, terms, same }: Writing): void {
  const prefill = conversation.uses.find(({ feature }) => feature === "prefill");
  if (!prefill || same || terms.facts.prefill) return;
  if (terms.facts.prefill === false) terms.refuse(prefill.path, "the model does not go on from an assistant's turn");
  terms.change(prefill.path, "the model may start a new message instead of going on from this one");
}

function writeInput(writing: Writing, native: RequestNative | undefined): JsonObject {
  const { turns } = writing.conversation;
  if (!native) return { input: writeItems(writing, turns) };
  const form = (turn: (typeof turns)[number]) => writing.native<MessageNative>(turn)?.form;
  const text = (wanted: MessageNative["form"]) => {
    const [part] = turns.find((turn) => form(turn) === wanted)?.parts ?? [];
    return part?.kind === "text" ? part.text : undefined;
  };
  const listed = turns.filter((turn) => form(turn) !== "whole" && form(turn) !== "instructions");
  const input = text("whole") ?? (native.input ? sameItems(writing, listed, native) : undefined);
  return { instructions: text("instructions"), input };
}

/** Items in the order they had, those that added tools among them; some may have gone meanwhile. */
function sameItems(writing: Writing, turns: readonly Turn[], native: RequestNative): JsonObject[] {
  const uses = turns.flatMap((turn) =>
    writeItems(writing, [turn]).map((item) => ({ at: Number(turn.at.slice("input.".length)), item })),
  );
  const tools = writing.conversation.tools.slice(toolsIn(native)).values();
  const added = native.added.map(({ at, rest, entries }) => ({
    at,
    item: merged(rest, { type: "additional_tools", tools: entries && writeEntries(writing, entries, tools) }),
  }));
  return [...uses, ...added].sort((one, two) => one.at - two.at).map(({ item }) => item);
}

/** How many of the conversation's tools came in `tools`. */
function toolsIn({ entries = [] }: RequestNative): number {
  return entries.reduce((sum, entry) => sum + (entry === "tool" ? 1 : (entry.count ?? 0)), 0);
}

/** Without tools there is nothing to choose from, and to say so is refused by some. */
function writeToolbox(writing: Writing, native: RequestNative | undefined): JsonObject {
  const { tools, toolChoice, parallel } = writing.conversation;
  const choice = { tool_choice: writeChoice(writing, toolChoice), parallel_tool_calls: parallel };
  if (native) return { tools: native.entries && writeEntries(writing, native.entries, tools.values()), ...choice };
  return tools.length > 0 ? { tools: writeTools(writing, tools), ...choice } : {};
}

/** The vendor refuses a smaller limit. */
const LEAST_OUTPUT = 16;

function writeSampling(writing: Writing): JsonObject {
  const { conversation, terms } = writing;
  const { temperature, topP, choices, maxTokens } = conversation;
  if (choices !== undefined && choices > 1) terms.refuse(writing.path("choices"), "there is one answer to a request");
  if (temperature !== undefined && temperature > 2 && !writing.same)
    terms.refuse(writing.path("temperature"), "the temperature goes from 0 to 2");
  return {
    temperature: sampled(writing, "temperature", temperature),
    top_p: sampled(writing, "top_p", topP),
    max_output_tokens: maxTokens === undefined ? undefined : longest(writing, maxTokens),
  };
}

function sampled(writing: Writing, feature: "temperature" | "top_p", value: number | undefined): number | undefined {
  if (value === undefined || writing.same || writing.terms.facts.sampling !== false) return value;
  writing.terms.drop(writing.path(feature), "the model does not take it");
  return undefined;
}

function longest(writing: Writing, tokens: number): number {
  const { terms } = writing;
  if (writing.same) return tokens;
  const path = writing.path("max_tokens");
  if (tokens < 1) terms.refuse(path, "an answer needs at least one token");
  const most = terms.facts.output ?? tokens;
  const sent = Math.max(LEAST_OUTPUT, Math.min(tokens, most));
  if (sent !== tokens) terms.change(path, `${sent} is sent, the ${sent > tokens ? "least" : "most"} that is taken`);
  return sent;
}

function writeWishes(writing: Writing, native: RequestNative | undefined): JsonObject {
  const { format, verbosity } = writing.conversation;
  const text = merged(native?.text, { format: format && writeFormat(format, native), verbosity });
  return {
    text: native?.text || Object.keys(text).length > 0 ? text : undefined,
    reasoning: writeReasoning(writing, native),
  };
}

function writeFormat(format: Format, native: RequestNative | undefined): JsonObject {
  switch (format.kind) {
    case "text":
      return { ...native?.format, type: "text" };
    case "json":
      return { ...native?.format, type: "json_object" };
    case "schema": {
      const { schema, description } = format;
      const name = native ? format.name : (format.name ?? "answer").replace(/[^a-zA-Z0-9_-]/g, "_").slice(0, 64);
      const strict = format.strict ?? (native ? undefined : false);
      return merged(native?.format, { type: "json_schema", name, description, schema, strict });
    }
  }
}

function writeReasoning(writing: Writing, native: RequestNative | undefined): JsonObject | undefined {
  const { conversation, terms } = writing;
  const context = conversation.reasoning;
  if (!context) return undefined;
  if (terms.facts.thinking === "none" && !native) {
    for (const feature of unthought(context)) terms.drop(writing.path(feature), "the model does not think");
    return undefined;
  }
  const summary = context.summary ?? (context.show ? "auto" : undefined);
  const reasoning = merged(native?.reasoning, { effort: context.effort ?? budgeted(writing, context.budget), summary });
  return native?.reasoning || Object.keys(reasoning).length > 0 ? reasoning : undefined;
}

/** What is lost of a wish where the model does not think: nothing of the wish that it should not. */
function unthought({ effort, budget, show, summary }: ReasoningConfig): Feature[] {
  if (effort === "none" || budget === 0) return [];
  return [
    ...(effort === undefined ? [] : ["reasoning_effort" as const]),
    ...(budget === undefined ? [] : ["reasoning_budget" as const]),
    ...(show || summary ? ["reasoning_summary" as const] : []),
  ];
}

function budgeted(writing: Writing, budget: number | undefined): Effort | undefined {
  const effort = budget === undefined ? undefined : effortFor(budget);
  if (effort !== undefined)
    writing.terms.change(writing.path("reasoning_budget"), `an effort is sent instead of tokens: ${effort}`);
  return effort;
}

/** Labels, and what to keep and include: nothing is kept, and reasoning comes back encrypted instead. */
function writeLabels(writing: Writing, native: RequestNative | undefined): JsonObject {
  const { conversation, terms } = writing;
  const { logprobs, cacheKey, user, cache, metadata } = conversation;
  const include = [
    ...(terms.facts.thinking === "none" ? [] : [ENCRYPTED]),
    ...(logprobs === undefined ? [] : [LOGPROBS]),
  ];
  return {
    store: native ? conversation.store : false,
    include: native ? native.include : include.length > 0 ? include : undefined,
    top_logprobs: logprobs || undefined,
    prompt_cache_key: writing.label(cacheKey, "cache_key"),
    prompt_cache_options: native
      ? native.cacheOptions && merged(native.cacheOptions, { ttl: cache?.ttl })
      : cache && wholeCacheOf(cache),
    [native?.userField ?? "safety_identifier"]: writing.label(user, "user"),
    metadata: native ? metadata && { ...native.metadata, ...metadata } : writeMetadata(writing),
    service_tier: native ? conversation.tier : writeTier(writing),
  };
}

/** The vendor takes so many labels. [S] */
const MOST_LABELS = 16;

function writeMetadata(writing: Writing): JsonObject | undefined {
  const { metadata } = writing.conversation;
  if (!metadata) return undefined;
  const labels = Object.entries(metadata);
  for (const [name] of labels.slice(MOST_LABELS))
    writing.terms.drop(`${writing.path("metadata")}.${name}`, `there are ${MOST_LABELS} labels at most`);
  return Object.fromEntries(labels.slice(0, MOST_LABELS));
}

function writeTier(writing: Writing): string | undefined {
  const { tier } = writing.conversation;
  if (tier === undefined) return undefined;
  const known = tierOf(tier, "ultrafast");
  if (known === undefined) writing.terms.drop(writing.path("tier"), `there is no tier ${tier}`);
  return known;
}
