import {
  asCount,
  asCounts,
  asList,
  asObject,
  asText,
  atMost,
  dropUndefined,
  type Frame,
  GatewayError,
  type JsonObject,
  type Protocol,
  parseJson,
  type Usage,
} from "model-gateway/protocol";
import { IMAGE_TOKENS } from "../openai/image-tokens.ts";
import { providerCost, stateTokens } from "../openai/usage.ts";
import { IMAGE_CALL } from "./wire.ts";

/** Decodes usage from a complete response or compaction, or from a lifecycle event's `response`. */
export function readUsage(json: unknown, previous?: Usage): Usage | undefined {
  const top = asObject(json);
  if (top && TOOL_EVENTS.has(top["type"])) return addToolEvent(top, previous);
  const body = asObject(top?.["response"]) ?? top;
  const raw = asObject(body?.["usage"]);
  if (!raw) return previous;
  const inputDetails = asObject(raw["input_tokens_details"]) ?? {};
  // The name in transcriptions, whose usage is the same but for its details. [S]
  const audio = asCount(asObject(raw["input_token_details"])?.["audio_tokens"]);
  const outputDetails = asObject(raw["output_tokens_details"]) ?? {};
  const input = asCount(raw["input_tokens"]);
  const output = asCount(raw["output_tokens"]);
  const tier = asText(body?.["service_tier"]) ?? previous?.tier;
  const serverTools = asCounts(raw["server_side_tool_usage_details"]) ?? webSearches(body, previous);
  return {
    in: dropUndefined({
      total: input,
      cached: atMost(asCount(inputDetails["cached_tokens"]), input),
      write: cacheWrites(inputDetails, raw),
      audio: atMost(audio, input),
    }),
    out: dropUndefined({ total: output, reasoning: atMost(asCount(outputDetails["reasoning_tokens"]), output) }),
    ...dropUndefined({ serverTools, tier, drawn: imageUsage(body), providerCost: providerCost(raw) }),
    raw,
  };
}

/** The event with a whole item, and the items that cost money: an image, and a web search. */
const ITEM_DONE = "response.output_item.done";
export const SEARCH_CALL = "web_search_call";
/** Events of an image that has begun, and of one whose item follows. */
const IMAGE_EVENTS = [`response.${IMAGE_CALL}.partial_image`, `response.${IMAGE_CALL}.completed`];
const TOOL_EVENTS: ReadonlySet<unknown> = new Set([ITEM_DONE, ...IMAGE_EVENTS]);
/** Bytes of an event that contain its name. */
const EVENT_NAME_BYTES = 64;

/** Reports whether a frame may contain an image, a part of one, or a search. */
export function holdsToolCall({ bytes }: Frame): boolean {
  const name = bytes.toString("latin1", 0, EVENT_NAME_BYTES);
  if (name.includes(ITEM_DONE)) return bytes.includes(IMAGE_CALL) || bytes.includes(SEARCH_CALL);
  return IMAGE_EVENTS.some((event) => name.includes(event));
}

/**
 * Adds what an event tells of the vendor's own tools, in case the stream is aborted after it: for each image, the tokens of an
 * average one. The last event's usage replaces it.
 */
function addToolEvent(event: JsonObject, previous?: Usage): Usage | undefined {
  const item = asObject(event["item"]);
  if (event["type"] !== ITEM_DONE) return addImage(asText(event["item_id"]), previous);
  if (isSearch(item)) return addSearch(previous);
  return item?.["type"] === IMAGE_CALL && asText(item["result"]) ? addImage(asText(item["id"]), previous) : previous;
}

/** Images that are added at most: their ids are compared with each other. */
const MAX_IMAGES = 100;

/** Adds an image, once: `raw` has the ids of those that were added. */
function addImage(id = "", previous?: Usage): Usage | undefined {
  const ids = asList(asObject(previous?.raw)?.[IMAGE_CALL]);
  if (ids.length >= MAX_IMAGES || ids.includes(id)) return previous;
  const total = (ids.length + 1) * IMAGE_TOKENS;
  return {
    ...(previous ?? { in: {}, out: {} }),
    drawn: { in: { total: 0 }, out: { total, image: total }, unreported: ids.length + 1 },
    raw: { [IMAGE_CALL]: [...ids, id] },
  };
}

const SEARCHES = "web_search_requests";

const addSearch = (previous: Usage = { in: {}, out: {}, raw: undefined }): Usage => ({
  ...previous,
  serverTools: { [SEARCHES]: (previous.serverTools?.[SEARCHES] ?? 0) + 1 },
});

/** Reports whether an item is a search: pages that a model opens, or searches for a text, are not billed. */
function isSearch(item: JsonObject | undefined): boolean {
  if (item?.["type"] !== SEARCH_CALL || item["status"] === "failed") return false;
  return (asText(asObject(item["action"])?.["type"]) ?? "search") === "search";
}

/** Returns web searches: reported beside `usage`, where a response without any has 0, or else those in the output. */
function webSearches(body: JsonObject | undefined, previous: Usage | undefined): Usage["serverTools"] {
  const reported = asCount(asObject(asObject(body?.["tool_usage"])?.["web_search"])?.["num_requests"]);
  const found = () => asList(body?.["output"]).filter((item) => isSearch(asObject(item))).length;
  const searches = reported ?? Math.max(found(), previous?.serverTools?.[SEARCHES] ?? 0);
  return searches ? { [SEARCHES]: searches } : undefined;
}

/**
 * Returns the image model's tokens, reported beside `usage`; a response without images has 0. The tool's model is in
 * `tools`.
 */
function imageUsage(body: JsonObject | undefined): Usage["drawn"] {
  const raw = asObject(asObject(body?.["tool_usage"])?.["image_gen"]);
  const [input, output] = [asCount(raw?.["input_tokens"]), asCount(raw?.["output_tokens"])];
  if (!raw || (!input && !output)) return undefined;
  const tool = asList(body?.["tools"])
    .map(asObject)
    .find((entry) => entry?.["type"] === "image_generation");
  return {
    ...dropUndefined({ model: asText(tool?.["model"]) }),
    in: dropUndefined({ total: input, image: asCount(asObject(raw["input_tokens_details"])?.["image_tokens"]) }),
    out: dropUndefined({
      total: output,
      image: raw["output_tokens_details"] ? asCount(asObject(raw["output_tokens_details"])?.["image_tokens"]) : output,
    }),
  };
}

/** Returns tokens written to the cache. Where the split by time to live is partial, the rest stays unsplit. */
function cacheWrites(details: JsonObject, raw: JsonObject): Usage["in"]["write"] {
  const total = asCount(details["cache_write_tokens"]) ?? alibabaWrites(raw);
  const split = asObject(details["cache_write_tokens_details"]);
  const thirtyMinutes = asCount(split?.["ttl_30m_tokens"]);
  const twelveHours = asCount(split?.["ttl_12h_tokens"]);
  // Always present, so 0 only means none.
  if (thirtyMinutes === undefined && twelveHours === undefined) return total ? { unsplit: total } : undefined;
  const unsplit = (total ?? 0) - (thirtyMinutes ?? 0) - (twelveHours ?? 0);
  return dropUndefined({ "30m": thirtyMinutes, "12h": twelveHours, unsplit: unsplit > 0 ? unsplit : undefined });
}

/** Returns the tokens written to the cache in Alibaba's own details, which have the form of Chat. [D] */
function alibabaWrites({ x_details: entries }: JsonObject): number | undefined {
  const details = asObject(asObject(asList(entries)[0])?.["prompt_tokens_details"]);
  return asCount(details?.["cache_creation_input_tokens"]);
}

/** Efforts at which the vendor's models do not reason before they answer. */
const UNREASONED: ReadonlySet<string> = new Set(["none", "minimal"]);
/** Tokens of a reasoning that has neither state nor summary: the mean of recorded ones, which have 0 to 2,500. [F] */
const USUAL_REASONING = 400;
/** Characters of a summary for each token of its reasoning. [F] */
const SUMMARY_PER_TOKEN = 2;
/** Tokens of a search that the vendor's reasoning models count as reasoning, at any effort. [F] */
const SEARCH_TOKENS = 42;
/** How xAI's items of reasoning begin that hold what its tools have found. [F] */
const FOUND_BY_TOOL = "tco_";

/** Finds the reasoning of items that ended; each event of a stream tells of it once. */
export const hiddenReasoning: NonNullable<Protocol["hiddenReasoning"]> = () => {
  let effort: string | undefined;
  return (json) => {
    const event = asObject(json) ?? {};
    const body = asObject(event["response"]) ?? event;
    effort = asText(asObject(body["reasoning"])?.["effort"]) ?? effort;
    const items = event["type"] === ITEM_DONE ? [event["item"]] : asList(event["output"]);
    // Without a generator: nearly all events are pieces of text.
    return items.flatMap((item) => [...itemReasoning(asObject(item) ?? {}, effort)]);
  };
};

/**
 * Yields an item's reasoning. Its state is the best measure, as short reasoning has longer summaries than itself; states of
 * former models have no such length.
 */
function* itemReasoning(item: JsonObject, effort: string | undefined) {
  if (item["type"] === SEARCH_CALL && effort !== undefined) yield ["omitted", SEARCH_TOKENS] as const;
  if (item["type"] !== "reasoning" || asText(item["id"])?.startsWith(FOUND_BY_TOOL)) return;
  if (partsLength(item["content"]) > 0) return;
  const state = asText(item["encrypted_content"]) ?? "";
  const summary = partsLength(item["summary"]);
  const known = stateTokens(state) || summary / SUMMARY_PER_TOKEN;
  if (known > 0) yield [summary > 0 ? "summarized" : "omitted", known] as const;
  else if (state === "" && effort !== undefined && !UNREASONED.has(effort)) yield ["assumed", USUAL_REASONING] as const;
}

const partsLength = (parts: unknown): number =>
  asList(parts).reduce<number>((sum, part) => sum + (asText(asObject(part)?.["text"])?.length ?? 0), 0);

/** Encodes usage of a response. Both counts are required, and so are their details; unknown ones are 0. [S] */
export function writeResponsesUsage({ in: input, out }: Usage): JsonObject {
  const { write } = input;
  const [thirtyMinutes, twelveHours] = [write?.["30m"], write?.["12h"]];
  const split =
    thirtyMinutes === undefined && twelveHours === undefined
      ? undefined
      : { ttl_30m_tokens: thirtyMinutes, ttl_12h_tokens: twelveHours };
  return {
    input_tokens: input.total ?? 0,
    input_tokens_details: {
      cached_tokens: input.cached ?? 0,
      cache_write_tokens: Object.values(write ?? {}).reduce((sum, tokens) => sum + tokens, 0),
      ...(split && { cache_write_tokens_details: split }),
    },
    output_tokens: out.total ?? 0,
    output_tokens_details: { reasoning_tokens: out.reasoning ?? 0 },
    total_tokens: (input.total ?? 0) + (out.total ?? 0),
  };
}

/** Encodes and decodes token counts: an object with a single number. */
export const inputTokensCodec = {
  /** Decodes a count. @throws GatewayError `upstream_invalid` when it has no number */
  decode(text: string): number {
    const total = asCount(asObject(parseJson(text))?.["input_tokens"]);
    if (total === undefined)
      throw new GatewayError("upstream_invalid", { message: "The provider's response has no count." });
    return total;
  },

  encode(total: number): string {
    return JSON.stringify({ object: "response.input_tokens", input_tokens: total });
  },
};
