import {
  type Conversation,
  type EncodeContext,
  type EncodedRequest,
  entryOf,
  type JsonObject,
  writeJson,
} from "model-gateway/protocol";
import { COUNT_TOKENS, MESSAGES } from "./operations.ts";
import type { Own } from "./request.decode.ts";
import { cacheControl, Marks } from "./request.encode.blocks.ts";
import { LOST, lostThinking, thinkingOf } from "./request.encode.thinking.ts";
import { choiceOf, chosenAt, forces, toolsOf } from "./request.encode.tools.ts";
import { messagesOf } from "./request.encode.turns.ts";
import { heldSchema } from "./request.schema.ts";
import { NAME, pathOf } from "./words.ts";

/**
 * The longest answer where neither the client nor gateway.yaml tells one: the vendor requires a number, refuses one above
 * the model's own maximum, and this is the largest that every model since Claude 4 takes.
 */
export const MOST_TOKENS = 32_000;

/** The version of the API that takes all that is written here; the newer one refuses sampling. */
const HEADERS = [["anthropic-version", "2023-06-01"]] as const;

/** Writes a Messages request. @throws GatewayError as `terms.refuse` makes it. */
export function encode(conversation: Conversation, terms: EncodeContext): EncodedRequest {
  const own = conversation.protocol === NAME ? (conversation.native as Own | undefined) : undefined;
  const body = own ? exactly(conversation, terms, own) : translated(conversation, terms);
  const operation = conversation.task === "count" ? COUNT_TOKENS : MESSAGES;
  return { operation, headers: HEADERS, body: writeJson(body) };
}

function translated(conversation: Conversation, terms: EncodeContext): JsonObject {
  const marks = new Marks(conversation, terms);
  refuseStrangers(conversation, terms);
  const tools = toolsOf(conversation, terms, marks);
  const { system, messages } = messagesOf(conversation, terms, marks);
  const most = conversation.maxTokens ?? terms.facts.output ?? MOST_TOKENS;
  const thought = thinkingOf(conversation, terms, most, messages);
  const config = { effort: thought.effort, ...formatOf(conversation, terms) };
  const prompt: JsonObject = {
    model: terms.model,
    system,
    messages,
    tools,
    tool_choice: tools && choiceOf(conversation, terms),
    thinking: thought.thinking,
    output_config: Object.values(config).some((member) => member !== undefined) ? config : undefined,
    cache_control: conversation.cache && cacheControl(conversation.cache, pathOf(conversation, "cache_mark"), terms),
  };
  marks.limit();
  if (conversation.task === "count") return prompt;
  return {
    ...prompt,
    max_tokens: most,
    stream: conversation.stream ? true : undefined,
    stop_sequences: stopOf(conversation, terms),
    metadata: conversation.user === undefined ? undefined : { user_id: conversation.user },
    service_tier: tierOf(conversation, terms),
    ...samplingOf(conversation, terms, thought.thinking !== undefined && thought.on),
  };
}

/**
 * The very request that was read, as far as the conversation still has it: what other providers made may be gone, and
 * nothing else is judged, moved or left out. Only thinking by tokens goes with thoughts of theirs that it would need.
 */
function exactly(conversation: Conversation, terms: EncodeContext, own: Own): JsonObject {
  const { maxTokens, temperature, topP, topK, stop, tier, user, reasoning, format, cache, tools } = conversation;
  const { system, messages } = messagesOf(conversation, terms, undefined);
  const effort = own.effort ?? (reasoning?.effort === "none" ? undefined : reasoning?.effort);
  const schema = format && { type: "json_schema", schema: format.schema, ...own.format };
  const thinking = own.thinking && { budget_tokens: budgetOf(own.thinking, reasoning?.budget), ...own.thinking };
  const config = own.config && { effort, ...(own.legacyFormat ? {} : { format: schema }), ...own.config };
  return {
    model: terms.model,
    max_tokens: maxTokens,
    stream: conversation.stream ? true : undefined,
    system,
    messages,
    tools: tools.length > 0 ? toolsOf(conversation, terms, undefined) : undefined,
    tool_choice: exactChoice(conversation, terms, own),
    thinking: thinking && takesThought(messages, terms, own) ? thinking : undefined,
    output_config: config,
    output_format: own.legacyFormat ? schema : undefined,
    temperature,
    top_p: topP,
    top_k: topK,
    stop_sequences: stop && stop.length > 0 ? stop : undefined,
    service_tier: tier,
    metadata: own.metadata && { user_id: user, ...own.metadata },
    cache_control: cache && cacheControl(cache, "cache_control", terms),
    ...own.rest,
  };
}

function takesThought(messages: readonly JsonObject[], terms: EncodeContext, { thinking }: Own): boolean {
  const lost = terms.pruned === true && thinking?.["type"] === "enabled" && lostThinking(messages);
  if (lost) terms.change("thinking", LOST);
  return !lost;
}

const budgetOf = (thinking: JsonObject, budget: number | undefined): number | undefined =>
  thinking["type"] === "enabled" && budget !== -1 ? budget : undefined;

function exactChoice(conversation: Conversation, terms: EncodeContext, own: Own): JsonObject | undefined {
  const { toolChoice, parallel } = conversation;
  const choice = toolChoice && choiceOf({ ...conversation, parallel: true }, terms);
  if (!choice) return undefined;
  const name = toolChoice.mode === "named" ? toolChoice.name : undefined;
  return { ...choice, name, disable_parallel_tool_use: parallel === undefined ? undefined : !parallel, ...own.choice };
}

/** What the table leaves to the writer because it depends on the value. */
function refuseStrangers(conversation: Conversation, terms: EncodeContext): void {
  if (forces(conversation) && conversation.tools.length === 0)
    terms.refuse(chosenAt(conversation), "There is no tool to call");
  // How often it is answered, and who keeps that, does not change the count.
  if (conversation.task === "count") return;
  if ((conversation.choices ?? 1) > 1)
    terms.refuse(pathOf(conversation, "choices"), "This model gives one answer at a time; ask once for each");
  if (conversation.store === true)
    terms.refuse(pathOf(conversation, "store"), "No answer is kept for this model; send false or leave it out");
}

function formatOf(conversation: Conversation, terms: EncodeContext): JsonObject {
  const { format } = conversation;
  if (format?.kind !== "schema" || !format.schema) return {};
  const path = pathOf(conversation, "json_schema");
  if (format.description !== undefined) terms.change(path, "without the description of the schema");
  const schema = heldSchema(format.schema, path, terms);
  return { format: { type: "json_schema", schema } };
}

function stopOf(conversation: Conversation, terms: EncodeContext): string[] | undefined {
  const { stop } = conversation;
  if (!stop || stop.length === 0) return undefined;
  if (stop.some((sequence) => sequence.trim() === ""))
    terms.refuse(pathOf(conversation, "stop"), "This model takes no stop sequence of white space only");
  return stop;
}

const TIERS: Readonly<Record<string, string>> = {
  auto: "auto",
  default: "standard_only",
  standard: "standard_only",
  standard_only: "standard_only",
};

function tierOf(conversation: Conversation, terms: EncodeContext): string | undefined {
  if (conversation.tier === undefined) return undefined;
  const tier = entryOf(TIERS, conversation.tier);
  if (tier === undefined)
    terms.drop(pathOf(conversation, "tier"), `There is no service tier ${conversation.tier} for this model`);
  return tier;
}

/** The lowest `top_p` beside thinking. [D: extended thinking] */
const LEAST_TOP_P = 0.95;

function samplingOf(conversation: Conversation, terms: EncodeContext, thinks: boolean): JsonObject {
  const { temperature, topP, topK } = conversation;
  if (temperature !== undefined && (temperature > 1 || temperature < 0))
    terms.refuse(pathOf(conversation, "temperature"), "This model takes a temperature from 0 to 1");
  const taken = terms.facts.sampling !== false;
  const why = taken ? "This model does not take it while it thinks" : "This model does not take it";
  const keep = <T>(feature: "temperature" | "top_p" | "top_k", value: T | undefined, fits: boolean): T | undefined => {
    if (value === undefined || fits) return value;
    terms.drop(pathOf(conversation, feature), why);
    return undefined;
  };
  return {
    temperature: keep("temperature", temperature, taken && (!thinks || temperature === 1)),
    top_p: keep("top_p", topP, taken && (!thinks || (topP ?? 1) >= LEAST_TOP_P)),
    top_k: keep("top_k", topK, taken && !thinks),
  };
}
