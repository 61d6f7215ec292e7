import {
  asCount,
  asCounts,
  asList,
  asObject,
  asText,
  atMost,
  type Conversation,
  dropUndefined,
  type ExtraUsage,
  estimateRequestTokens,
  type Frame,
  GatewayError,
  type JsonObject,
  ownProperty,
  type Protocol,
  parseJson,
  RawJson,
  type ResponseContext,
  type Usage,
} from "model-gateway/protocol";
import { eventInitial, LETTER_M, SEARCH_RESULT } from "./wire.ts";

/** The event with the results of a search, its block's type, and the bytes of an event that contain its own name. */
const BLOCK_START = "content_block_start";
const EVENT_NAME_BYTES = 64;
const SEARCHES = "web_search_requests";

/**
 * Reports whether a frame may contain usage: `message_start`, `message_delta`, a body with a `usage` object, or the results
 * of a search.
 */
export function holdsUsage(frame: Frame): boolean {
  const letter = eventInitial(frame);
  if ((letter === undefined || letter === LETTER_M) && frame.mayContain("usage")) return true;
  return (
    letter !== LETTER_M &&
    frame.bytes.subarray(0, EVENT_NAME_BYTES).includes(BLOCK_START) &&
    frame.bytes.includes(SEARCH_RESULT)
  );
}

/** Characters of a signature besides the thinking, and for each token of it. [F] */
const SIGNATURE_BASE = 300;
const SIGNATURE_PER_TOKEN = 4.2;

/**
 * Finds thinking that is omitted or redacted. A response that shows some of its thinking omits none: its signatures are not
 * counted, as their own events do not tell.
 */
export const hiddenReasoning: NonNullable<Protocol["hiddenReasoning"]> = () => {
  const response = { showsThinking: false };
  return (json) => hiddenThinking(json, response);
};

function* hiddenThinking(json: unknown, response: { showsThinking: boolean }) {
  const body = asObject(json) ?? {};
  for (const block of [body["content_block"], body["delta"], ...asList(body["content"])].map(asObject)) {
    response.showsThinking ||= Boolean(asText(block?.["thinking"]));
    const redacted = block?.["type"] === "redacted_thinking" ? asText(block["data"]) : undefined;
    const state = redacted ?? (response.showsThinking ? "" : (asText(block?.["signature"]) ?? ""));
    if (state.length > SIGNATURE_BASE)
      yield ["omitted", (state.length - SIGNATURE_BASE) / SIGNATURE_PER_TOKEN] as const;
  }
}

/**
 * Decodes usage from `message_start`, `message_delta` or a complete message. The delta's numbers are totals, not increments, and
 * missing or null ones keep the values of `message_start` [S: the SDK's accumulator], as does an input of 0.
 */
export function readUsage(json: unknown, previous?: Usage): Usage | undefined {
  const body = asObject(json);
  if (body?.["type"] === BLOCK_START) return addSearch(asObject(body["content_block"]), previous);
  const reported = asObject(asObject(body?.["message"])?.["usage"] ?? body?.["usage"]);
  if (!reported) return previous;
  const raw = mergeUsage(asObject(previous?.raw), reported);
  // A list that was read before is as it was.
  const iterations = reported["iterations"]
    ? iterationsOf(raw)
    : { model: previous?.model, besides: previous?.besides };
  return normalizeUsage(raw, iterations);
}

/** Counts a search that was made, in case the stream is aborted after it: the last event's usage replaces the count. */
function addSearch(block: JsonObject | undefined, previous?: Usage): Usage | undefined {
  // An error is an object, and is not billed.
  if (block?.["type"] !== SEARCH_RESULT || !Array.isArray(block["content"])) return previous;
  const before = previous?.serverTools;
  return {
    ...(previous ?? { in: {}, out: {}, raw: undefined }),
    serverTools: { ...before, [SEARCHES]: (before?.[SEARCHES] ?? 0) + 1 },
  };
}

/** Maximum number of members kept of a stream's usage, of which the vendor has about ten, and of its tools. */
const MAX_MEMBERS = 100;

/** The counts of which the input is the sum. */
const INPUT_MEMBERS: readonly string[] = ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"];

const READ_MEMBERS: ReadonlySet<string> = new Set([
  ...[...INPUT_MEMBERS, "cache_creation"],
  ...["output_tokens", "output_tokens_details", "server_tool_use", "iterations", "service_tier", "speed"],
]);

/**
 * Returns reported usage without what would take time at each further event, which merges it and reads it anew. One more tool is
 * left than are believed.
 */
function withoutExcess(reported: JsonObject): JsonObject {
  const names = Object.keys(reported);
  const kept = names.length <= MAX_MEMBERS ? names : names.filter((name) => READ_MEMBERS.has(name));
  const tools = Object.entries(asObject(reported["server_tool_use"]) ?? {});
  if (kept === names && tools.length <= MAX_MEMBERS) return reported;
  const usage = Object.fromEntries(kept.map((name) => [name, reported[name]]));
  if (tools.length > MAX_MEMBERS) usage["server_tool_use"] = Object.fromEntries(tools.slice(0, MAX_MEMBERS + 1));
  return usage;
}

function mergeUsage(previous: JsonObject | undefined, added: JsonObject): JsonObject {
  const reported = withoutExcess(added);
  if (!previous) return reported;
  const full = Object.keys(previous).length >= MAX_MEMBERS;
  // Imitations count only the output at the end, and write 0 for the input. No prompt is without tokens.
  const lacksInput = INPUT_MEMBERS.every((name) => !reported[name]);
  const updates = Object.entries(reported).filter(([name, value]) =>
    Object.hasOwn(previous, name)
      ? value !== null && !(lacksInput && value === 0 && INPUT_MEMBERS.includes(name))
      : !full,
  );
  return { ...previous, ...Object.fromEntries(updates) };
}

/** Converts token counts: the vendor's `input_tokens` exclude cache reads and writes, the total of `Usage` includes them. */
function countsIn(raw: JsonObject): Pick<Usage, "in" | "out"> {
  const input = asCount(raw["input_tokens"]);
  const output = asCount(raw["output_tokens"]);
  const cached = asCount(raw["cache_read_input_tokens"]);
  const write = cacheWrites(raw);
  const total = input === undefined ? undefined : input + (cached ?? 0) + sum(write);
  const thinking = asCount(asObject(raw["output_tokens_details"])?.["thinking_tokens"]);
  return {
    in: dropUndefined({ total, cached, write }),
    out: dropUndefined({ total: output, reasoning: atMost(thinking, output) }),
  };
}

/** Returns the model that served in place of another, and tokens that are billed additionally. */
function iterationsOf(raw: JsonObject): Pick<Usage, "model" | "besides"> {
  const iterations = asList(raw["iterations"]).map((iteration) => asObject(iteration) ?? {});
  if (iterations.length === 0) return {};
  const model = asText(iterations.findLast(({ type }) => type === "fallback_message")?.["model"]);
  const besides = iterations.filter((each) => isBesides(each, model));
  return dropUndefined({ model, besides: besides.length === 0 ? undefined : besides.map(iterationUsage) });
}

const iterationUsage = (iteration: JsonObject): ExtraUsage => ({
  ...countsIn(iteration),
  ...dropUndefined({ model: asText(iteration["model"]) }),
});

/**
 * Reports whether an iteration's tokens are billed and not in the totals: those of a compaction and of an advisor, and those
 * of a model that declined after it had begun to respond. [S: BetaIterationsUsage]
 */
function isBesides({ type, model, output_tokens: output }: JsonObject, servingModel: string | undefined): boolean {
  if (type === "compaction" || type === "advisor_message") return true;
  const declined =
    type === "message" && servingModel !== undefined && model !== servingModel && asText(model) !== undefined;
  return declined && (asCount(output) ?? 0) > 0;
}

function normalizeUsage(
  raw: JsonObject,
  iterations: { [Name in "model" | "besides"]?: Usage[Name] | undefined },
): Usage {
  return {
    ...countsIn(raw),
    // The fast mode has rates of its own, in any tier.
    ...dropUndefined({
      ...iterations,
      serverTools: asCounts(raw["server_tool_use"]),
      tier: raw["speed"] === "fast" ? "fast" : asText(raw["service_tier"]),
    }),
    raw,
  };
}

/** Returns tokens written by time to live. The split may cover only a part of them, when server tools are used. [F] */
function cacheWrites(raw: JsonObject): Usage["in"]["write"] {
  const split = asObject(raw["cache_creation"]);
  const byTtl = dropUndefined({
    "5m": asCount(split?.["ephemeral_5m_input_tokens"]),
    "1h": asCount(split?.["ephemeral_1h_input_tokens"]),
  });
  const written = asCount(raw["cache_creation_input_tokens"]);
  const isSplit = Object.keys(byTtl).length > 0;
  if (written === undefined) return isSplit ? byTtl : undefined;
  const unsplit = Math.max(0, written - sum(byTtl));
  return isSplit && unsplit === 0 ? byTtl : { ...byTtl, unsplit };
}

const sum = (parts: Usage["in"]["write"] = {}): number =>
  Object.values(parts).reduce((total, tokens) => total + tokens, 0);

/**
 * Returns tokens written to the cache, limited so that reads and writes do not exceed the input: some vendors count a token
 * twice. A vendor that reports only reads does not count writes, and clients add the two.
 */
function cacheWriteTokens({ in: { total, cached, write } }: Usage): number | undefined {
  if (!write) return cached === undefined ? undefined : 0;
  return total === undefined ? sum(write) : Math.min(sum(write), Math.max(0, total - (cached ?? 0)));
}

/** Returns the vendor's `input_tokens`. */
function plainInput(usage: Usage): number | undefined {
  const { total, cached } = usage.in;
  return total === undefined ? undefined : Math.max(0, total - (cached ?? 0) - (cacheWriteTokens(usage) ?? 0));
}

/** Counts of the vendor's own tools; those of other vendors have no member. */
const SERVER_TOOLS = [SEARCHES, "web_fetch_requests"];

function serverTools({ serverTools: counts }: Usage): JsonObject | undefined {
  if (!counts || !SERVER_TOOLS.some((name) => name in counts)) return undefined;
  return Object.fromEntries(SERVER_TOOLS.map((name) => [name, counts[name] ?? 0]));
}

/** Returns writes by lifetime. Those with lifetimes that the vendor does not have count in the sum only. */
function cacheCreation({ in: { write } }: Usage): JsonObject | undefined {
  if (write?.["5m"] === undefined && write?.["1h"] === undefined) return undefined;
  return { ephemeral_5m_input_tokens: write["5m"] ?? 0, ephemeral_1h_input_tokens: write["1h"] ?? 0 };
}

/**
 * Returns usage for `message_start`, as far as it is known. Unknown input is estimated, because clients use the first number
 * until the last event; output is 0, because some clients add the two. [S: LangChain] Unknown values are null: types of the
 * SDKs have every member. [S: Usage, MessageDeltaUsage] Counts are numbers, as the vendor's always are: clients add them up.
 */
export function messageStartUsage(usage: Usage | undefined, { conversation }: ResponseContext): JsonObject {
  return {
    input_tokens: (usage && plainInput(usage)) ?? estimateRequestTokens(conversation, bytesOf(conversation)),
    cache_creation_input_tokens: (usage && cacheWriteTokens(usage)) ?? 0,
    cache_read_input_tokens: usage?.in.cached ?? 0,
    cache_creation: (usage && cacheCreation(usage)) ?? null,
    output_tokens: 0,
    output_tokens_details: null,
    server_tool_use: null,
    service_tier: tierOf(usage) ?? null,
    // No other vendor reports the region and mode in these values.
    inference_geo: null,
    speed: null,
  };
}

/**
 * Estimates the bytes of a request as JSON. The decoded prompt is walked once: serializing the request again, which may be
 * megabytes, would delay the response's first token.
 */
function bytesOf({ turns, tools, format }: Conversation): number {
  let bytes = 0;
  const pending: unknown[] = [turns, tools, format?.schema];
  while (pending.length > 0) {
    const value = pending.pop();
    if (typeof value === "string") bytes += Buffer.byteLength(value) + 3;
    else if (value instanceof RawJson) bytes += Buffer.byteLength(value.text) + 1;
    else if (Array.isArray(value)) for (const element of value) pending.push(element);
    else if (typeof value === "object")
      for (const name in value) {
        bytes += name.length + 3;
        pending.push((value as JsonObject)[name]);
      }
    else bytes += 5;
  }
  return bytes;
}

/** The vendor's values for service tiers; others are left out. [S: Usage.service_tier] */
const TIER_NAMES: Readonly<Record<string, string>> = {
  default: "standard",
  standard: "standard",
  priority: "priority",
  batch: "batch",
};

const tierOf = (usage: Usage | undefined): string | undefined => ownProperty(TIER_NAMES, usage?.tier);

/** Returns usage for `message_delta`: totals. Unknown input is 0 here: an estimate is not a count. */
export function messageDeltaUsage(usage: Usage | undefined): JsonObject {
  const thinking = usage?.out.reasoning;
  return {
    input_tokens: (usage && plainInput(usage)) ?? 0,
    cache_creation_input_tokens: (usage && cacheWriteTokens(usage)) ?? 0,
    cache_read_input_tokens: usage?.in.cached ?? 0,
    output_tokens_details: thinking === undefined ? null : { thinking_tokens: thinking },
    server_tool_use: (usage && serverTools(usage)) ?? null,
    ...dropUndefined({ cache_creation: usage && cacheCreation(usage), service_tier: tierOf(usage) }),
    output_tokens: usage?.out.total ?? 0,
  };
}

/** Decodes a token count. @throws GatewayError `upstream_invalid` */
export function decodeCount(text: string): number {
  const total = asCount(asObject(parseJson(text))?.["input_tokens"]);
  if (total === undefined) throw new GatewayError("upstream_invalid");
  return total;
}

/** Encodes a token count. */
export const encodeCount = (total: number): string => JSON.stringify({ input_tokens: total });
