import {
  asCount,
  asObject,
  asText,
  atMost,
  dropUndefined,
  type Frame,
  foldCase,
  type JsonObject,
  type Protocol,
  type Usage,
} from "model-gateway/protocol";

/** Reports whether a frame may contain usage: a member `usage` of the response or of an event. */
export const holdsUsage = (frame: Frame): boolean => frame.mayContain("usage");

const INCLUDE = "include_usage";

const streamOptions = (body: unknown) => asObject(asObject(body)?.["stream_options"]);

/**
 * Reports whether a request asks for usage in its stream, to every server: some match names in any case, and use the last one.
 */
export function requestsUsage(body: unknown): boolean {
  const options = streamOptions(body) ?? {};
  return options[INCLUDE] === true && !Object.keys(options).some((name) => name !== INCLUDE && isIncludeUsage(name));
}

const isIncludeUsage = (name: string): boolean => foldCase(name) === INCLUDE;

/** Reports whether a client expects usage in its stream: it requests it, here or as OpenRouter's clients do. [S] */
export const expectsUsage = (body: unknown): boolean =>
  requestsUsage(body) || asObject(asObject(body)?.["usage"])?.["include"] === true;

/** Usage is streamed only with `stream_options.include_usage`, in a last chunk without choices. */
export const includeUsage: NonNullable<Protocol["includeUsage"]> = {
  missing: (body) => asObject(body)?.["stream"] === true && !requestsUsage(body),
  expected: expectsUsage,
  member(body) {
    const others = Object.entries(streamOptions(body) ?? {}).filter(([name]) => !isIncludeUsage(name));
    return { name: "stream_options", json: JSON.stringify({ ...Object.fromEntries(others), [INCLUDE]: true }) };
  },
  extra(frame) {
    // Azure's first chunk has no choices either, but no usage: it is for the client.
    if (!holdsUsage(frame)) return false;
    const chunk = asObject(frame.json());
    const choices = chunk?.["choices"];
    return Array.isArray(choices) && choices.length === 0 && asObject(chunk?.["usage"]) !== undefined;
  },
};

/**
 * Returns the provider's own cost of a response in nano-dollars: from ten billionths of a dollar (xAI), dollars (OpenRouter),
 * or dollars with their parts (Perplexity). [F]
 */
export function providerCost(raw: JsonObject): number | undefined {
  const { cost_in_usd_ticks: ticks, cost } = raw;
  if (typeof ticks === "number" && ticks >= 0) return Math.round(ticks / TICKS_IN_NANO);
  if (cost === undefined) return undefined;
  const usd = typeof cost === "number" ? cost : asObject(cost)?.["total_cost"];
  return typeof usd === "number" && usd >= 0 ? Math.round(usd * NANO_IN_USD) : undefined;
}

const TICKS_IN_NANO = 10;
const NANO_IN_USD = 1e9;

/**
 * Decodes the usage of a chat or text completion.
 * @param raw the vendor's usage in `body`, a response or a chunk
 */
export function readCompletionUsage(raw: JsonObject, body?: JsonObject, previous?: Usage): Usage {
  const usage: Usage = { in: input(raw), out: output(raw), raw };
  const tier = asText(body?.["service_tier"]) ?? asText(raw["service_tier"]) ?? previous?.tier;
  if (tier !== undefined) usage.tier = tier;
  const cost = providerCost(raw);
  if (cost !== undefined) usage.providerCost = cost;
  return usage;
}

// Members are read one by one, because this runs for each response: copying those present from a list takes three times as
// long.

function input(raw: JsonObject): Usage["in"] {
  const details = asObject(raw["prompt_tokens_details"]) ?? NO_DETAILS;
  const counts: Usage["in"] = {};
  const unreportedAudio = unreportedAudioTokens(raw);
  const prompt = asCount(raw["prompt_tokens"]);
  const cited = billedApart(raw, "citation_tokens") ?? 0;
  const total = prompt === undefined ? undefined : prompt + (unreportedAudio ?? 0) + cited + cacheBesidePrompt(raw);
  if (total !== undefined) counts.total = total;
  // DeepSeek, Moonshot, Mistral and LiteLLM have members of their own beside the common one or instead of it.
  const cached =
    asCount(details["cached_tokens"]) ??
    asCount(raw["prompt_cache_hit_tokens"]) ??
    asCount(raw["cached_tokens"]) ??
    asCount(raw["num_cached_tokens"]) ??
    asCount(raw["cache_read_input_tokens"]);
  // Recorded from Azure's Grok: more cached tokens than prompt tokens.
  if (cached !== undefined) counts.cached = atMost(cached, total) as number;
  // Alibaba and LiteLLM name written tokens as Anthropic does, and include them in the prompt's. [D]
  const written =
    asCount(details["cache_write_tokens"]) ??
    asCount(details["cache_creation_input_tokens"]) ??
    asCount(raw["cache_creation_input_tokens"]);
  if (written !== undefined) counts.write = { unsplit: written };
  const audio = asCount(details["audio_tokens"]) ?? unreportedAudio;
  if (audio !== undefined) counts.audio = audio;
  const image = asCount(details["image_tokens"]);
  if (image !== undefined) counts.image = image;
  const video = asCount(details["video_tokens"]);
  if (video !== undefined) counts.video = video;
  return counts;
}

function output(raw: JsonObject): Usage["out"] {
  const details = asObject(raw["completion_tokens_details"]) ?? NO_DETAILS;
  const counts: Usage["out"] = {};
  const besides = billedApart(raw, "reasoning_tokens");
  const stated = totalOut(raw);
  const total = stated === undefined ? undefined : stated + (besides ?? 0);
  if (total !== undefined) counts.total = total;
  const reasoning = asCount(details["reasoning_tokens"]) ?? besides;
  if (reasoning !== undefined) counts.reasoning = atMost(reasoning, total) as number;
  const audio = asCount(details["audio_tokens"]);
  if (audio !== undefined) counts.audio = audio;
  const image = asCount(details["image_tokens"]);
  if (image !== undefined) counts.image = image;
  const accepted = asCount(details["accepted_prediction_tokens"]);
  if (accepted !== undefined) counts.acceptedPrediction = accepted;
  const rejected = asCount(details["rejected_prediction_tokens"]);
  if (rejected !== undefined) counts.rejectedPrediction = rejected;
  return counts;
}

const NO_DETAILS: JsonObject = {};

/**
 * Returns Mistral's audio tokens: it reports the duration of audio input, and its tokens only in the total; `prompt_tokens`
 * covers the text. [D: audio and transcription] Undefined without audio.
 */
function unreportedAudioTokens(raw: JsonObject): number | undefined {
  if (!asCount(raw["prompt_audio_seconds"])) return undefined;
  const [total, prompt, completion] = ["total_tokens", "prompt_tokens", "completion_tokens"].map((name) =>
    asCount(raw[name]),
  );
  if (total === undefined) return undefined;
  return Math.max(0, total - (prompt ?? 0) - (completion ?? 0));
}

/**
 * Returns a count of Perplexity's that is in no total: the pages that it read, at the price of input, or its reasoning. Only a
 * model that bills them has their cost. [D: sonar-deep-research]
 */
function billedApart(raw: JsonObject, name: "citation_tokens" | "reasoning_tokens"): number | undefined {
  const usd = asObject(raw["cost"])?.[`${name}_cost`];
  return typeof usd === "number" && usd > 0 ? asCount(raw[name]) : undefined;
}

/**
 * Returns the cached and the written tokens of a gateway that leaves Claude's out of the prompt's and includes them in the total
 * (Portkey [S]); 0 for all others. What remains of a total would be taken for output, which costs fifty times as much.
 */
function cacheBesidePrompt(raw: JsonObject): number {
  const cache = (asCount(raw["cache_read_input_tokens"]) ?? 0) + (asCount(raw["cache_creation_input_tokens"]) ?? 0);
  if (cache === 0) return 0;
  const others = (asCount(raw["prompt_tokens"]) ?? 0) + (asCount(raw["completion_tokens"]) ?? 0);
  return asCount(raw["total_tokens"]) === others + cache ? cache : 0;
}

/** Returns the output tokens. Recorded from xAI and Google: only `total_tokens` includes reasoning, not `completion_tokens`. */
function totalOut(raw: JsonObject): number | undefined {
  const completion = asCount(raw["completion_tokens"]);
  if (unreportedAudioTokens(raw) !== undefined) return completion;
  const input = (asCount(raw["prompt_tokens"]) ?? 0) + cacheBesidePrompt(raw);
  const withReasoning = (asCount(raw["total_tokens"]) ?? 0) - input;
  return completion === undefined ? undefined : Math.max(completion, withReasoning);
}

/**
 * Encodes usage: parts are included in their totals, and unknown values are left out, but for those that the vendor always sends
 * and clients require: the totals, and in details the tokens that were cached, and those of reasoning. [S: OpenRouter's provider]
 */
export function writeUsage(usage: Usage): JsonObject {
  const { in: input, out: output } = usage;
  const writes = input.write && Object.values(input.write).reduce((sum, tokens) => sum + tokens, 0);
  const inputDetails = dropUndefined({
    cached_tokens: input.cached,
    cache_write_tokens: writes,
    audio_tokens: input.audio,
    image_tokens: input.image,
    video_tokens: input.video,
  });
  const outputDetails = dropUndefined({
    reasoning_tokens: output.reasoning ?? 0,
    audio_tokens: output.audio,
    image_tokens: output.image,
    accepted_prediction_tokens: output.acceptedPrediction,
    rejected_prediction_tokens: output.rejectedPrediction,
  });
  return {
    prompt_tokens: input.total ?? 0,
    completion_tokens: output.total ?? 0,
    total_tokens: (input.total ?? 0) + (output.total ?? 0),
    ...(Object.keys(inputDetails).length > 0 ? { prompt_tokens_details: { cached_tokens: 0, ...inputDetails } } : {}),
    completion_tokens_details: outputDetails,
  };
}

/** How encrypted states of the vendor's models begin, and their characters besides the reasoning: its own, and Bedrock's. [F] */
const STATE_BASES: readonly (readonly [start: string, characters: number])[] = [
  ["gAAAA", 1000],
  ["rsn_", 710],
];
/** Characters of a state for each token of reasoning, also at other vendors. [F] */
const STATE_PER_TOKEN = 6.2;

/** Returns about how many tokens of reasoning an encrypted state holds. */
export function stateTokens(state: string): number {
  const [, base = 0] = STATE_BASES.find(([start]) => state.startsWith(start)) ?? [];
  return Math.max(0, state.length - base) / STATE_PER_TOKEN;
}
