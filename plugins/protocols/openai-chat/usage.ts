import {
  asCount,
  asCounts,
  asList,
  asObject,
  asText,
  atMost,
  type Frame,
  type JsonObject,
  type Protocol,
  type Usage,
} from "model-gateway/protocol";
import { providerCost, stateTokens } from "../openai/usage.ts";

/** The member of a citation, by which alone OpenAI's search models report that they have searched. */
export const URL_CITATION = "url_citation";
/** The counts' names, as the vendor reports none. For models that do not search by themselves somebody else may have searched. */
const SEARCHES = "web_search";
const CITED_SEARCHES = "cited_web_search";

/** Models that search the web in Chat too; others refuse `web_search_options`. [M: OpenAI] */
export const SEARCH_MODEL = /(?:^|[/-])search(?:-|$)/;

const USAGE_MEMBERS = ["usage", URL_CITATION];

/** Reports whether a frame may contain usage, or citations of a search. */
export const holdsUsage = (frame: Frame): boolean => frame.mayContain(USAGE_MEMBERS);

/**
 * Decodes the usage of a complete response, or of the chunk that has it: one with empty `choices`, or the last one with some
 * (OpenRouter). `usage: null` means none. Groq's streams have it under `x_groq`, whether requested or not.
 */
export function readUsage(json: unknown, previous?: Usage): Usage | undefined {
  const body = asObject(json);
  const raw = asObject(body?.["usage"]) ?? asObject(asObject(body?.["x_groq"])?.["usage"]);
  if (!raw) {
    const cited = citedSearch(body);
    return cited ? { ...(previous ?? { in: {}, out: {}, raw: undefined }), serverTools: cited } : previous;
  }
  const tier = asText(body?.["service_tier"]) ?? asText(raw["service_tier"]) ?? previous?.tier;
  const usage: Usage = { in: input(raw), out: output(raw), raw };
  const serverTools = searches(raw) ?? citedSearch(body) ?? previous?.serverTools;
  if (serverTools !== undefined) usage.serverTools = serverTools;
  if (tier !== undefined) usage.tier = tier;
  const cost = providerCost(raw);
  if (cost !== undefined) usage.providerCost = cost;
  return usage;
}

/** Returns the searches that usage has: OpenRouter's by tool, and Perplexity's. [F] */
function searches(raw: JsonObject): Usage["serverTools"] {
  const details = raw["server_tool_use_details"];
  if (details !== undefined) return asCounts(details);
  const queries = asCount(raw["num_search_queries"]);
  return queries === undefined ? undefined : { [SEARCHES]: queries };
}

/** Returns the search for a response or chunk that cites a page, which is billed once for a request. [D: OpenAI's prices] */
function citedSearch(body: JsonObject | undefined): Usage["serverTools"] {
  const isCited = asList(body?.["choices"]).some((choice) => {
    const { message, delta } = asObject(choice) ?? {};
    const annotations = asList(asObject(message ?? delta)?.["annotations"]);
    return annotations.some((each) => asObject(asObject(each)?.[URL_CITATION]) !== undefined);
  });
  if (!isCited) return undefined;
  return { [SEARCH_MODEL.test(asText(body?.["model"]) ?? "") ? SEARCHES : CITED_SEARCHES]: 1 };
}

/** Bytes of base64 for each token of audio: 16 bits at 24 kHz, the only streamed form, with 20 tokens a second. [S] */
const AUDIO_BYTES_PER_TOKEN = (24_000 * 2 * (4 / 3)) / 20;
/** Tokens of a usual image of the models that answer with images here. */
const IMAGE_TOKENS = 1120;

/** Returns the audio and images of a chunk. */
export function* chunkMedia(json: unknown): Generator<readonly [kind: "audio" | "image", tokens: number]> {
  for (const choice of asList(asObject(json)?.["choices"])) {
    const delta = asObject(asObject(choice)?.["delta"]);
    const audio = asText(asObject(delta?.["audio"])?.["data"]);
    if (audio) yield ["audio", audio.length / AUDIO_BYTES_PER_TOKEN];
    for (const _ of asList(delta?.["images"])) yield ["image", IMAGE_TOKENS];
  }
}

/** Finds reasoning of which a chunk or a response has the state: OpenRouter's, and Google's signatures. [F] */
export const hiddenReasoning: NonNullable<Protocol["hiddenReasoning"]> = () => (json) =>
  asList(asObject(json)?.["choices"])
    .flatMap((choice) => reasoningStates(asObject(choice) ?? {}))
    .map((state) => ["summarized", stateTokens(state)] as const);

function reasoningStates({ message, delta }: JsonObject): string[] {
  const { reasoning_details, tool_calls, extra_content } = asObject(message ?? delta) ?? {};
  // Nearly all chunks are pieces of text.
  if (!reasoning_details && !tool_calls && !extra_content) return [];
  const encrypted = asList(reasoning_details)
    .map(asObject)
    .filter((entry) => entry?.["type"] === "reasoning.encrypted")
    .map((entry) => entry?.["data"]);
  const signatures = [{ extra_content }, ...asList(tool_calls)].map(
    (holder) => asObject(asObject(asObject(holder)?.["extra_content"])?.["google"])?.["thought_signature"],
  );
  return [...encrypted, ...signatures].filter((state) => typeof state === "string");
}

// Members are read one by one, because this runs for each response: copying those present from a list takes three times as
// long.

function input(raw: JsonObject): Usage["in"] {
  const details = asObject(raw["prompt_tokens_details"]) ?? NO_DETAILS;
  const counts: Usage["in"] = {};
  const unreportedAudio = unreportedAudioTokens(raw);
  const prompt = asCount(raw["prompt_tokens"]);
  const cited = billedApart(raw, "citation_tokens") ?? 0;
  const total = prompt === undefined ? undefined : prompt + (unreportedAudio ?? 0) + cited;
  if (total !== undefined) counts.total = total;
  // DeepSeek, Moonshot and Mistral have members of their own beside the common one or instead of it.
  const cached =
    asCount(details["cached_tokens"]) ??
    asCount(raw["prompt_cache_hit_tokens"]) ??
    asCount(raw["cached_tokens"]) ??
    asCount(raw["num_cached_tokens"]);
  // Recorded from Azure's Grok: more cached tokens than prompt tokens.
  if (cached !== undefined) counts.cached = atMost(cached, total) as number;
  const written = asCount(details["cache_write_tokens"]);
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

/** Returns the output tokens. Recorded from xAI and Google: only `total_tokens` includes reasoning, not `completion_tokens`. */
function totalOut(raw: JsonObject): number | undefined {
  const completion = asCount(raw["completion_tokens"]);
  if (unreportedAudioTokens(raw) !== undefined) return completion;
  const withReasoning = (asCount(raw["total_tokens"]) ?? 0) - (asCount(raw["prompt_tokens"]) ?? 0);
  return completion === undefined ? undefined : Math.max(completion, withReasoning);
}
