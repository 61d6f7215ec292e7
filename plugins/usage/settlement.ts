import type { DoneExchange } from "model-gateway";
import type { LedgerEntry, Usage } from "model-gateway/store";
import type { DeliveredTokens } from "./delivered-tokens.ts";
import { hasCounts } from "./price.ts";
import { answerTokens } from "./requested.ts";
import { reportedTier } from "./tier.ts";
import type { UnseenReasoning } from "./unseen-reasoning.ts";
import { type RequestFigures, responseProtocol, tryRead, type UsageReading } from "./usage-reading.ts";

/** What is billed for a stream that breaks off before its provider has reported usage. */
export const CUT_POLICIES = ["estimate", "observed", "absorb", "drain"] as const;
/** One of them. */
export type CutPolicy = (typeof CUT_POLICIES)[number];

/** The usage that is billed, and its source. */
export interface Settlement {
  usage: Usage | undefined;
  source: LedgerEntry["source"];
}

/** What the usage to bill is determined from. */
interface SettlementInput {
  readonly exchange: DoneExchange;
  readonly reading: UsageReading;
  readonly cut: CutPolicy;
  readonly asked: RequestFigures;
  readonly unseen: UnseenReasoning;
  /** Whether the exchange goes on: it is settled as if it broke off now. */
  readonly isRunning: boolean;
}

/** The usage that a provider has reported, if it is credible. */
interface ReportedUsage {
  reported: Usage | undefined;
  /** Whether it has token counts. */
  isCounted: boolean;
}

/** Determines the usage to bill. */
export function settle(input: SettlementInput): Settlement {
  const { exchange, reading, cut } = input;
  const { usage } = exchange;
  const reported = usage && isCredible(usage) ? usage : undefined;
  const report = { reported, isCounted: reported !== undefined && hasCounts(reported) };
  if (isFetchedLater(exchange, reading) && !report.isCounted) return { usage: undefined, source: "none" };
  if (input.isRunning) return settleCut(input, report);
  const isStreamedText = reading.delivered !== undefined && exchange.operation.task === "generate";
  if (isStreamedText) {
    if (hasArrived(exchange, reading) && reported?.out.total !== undefined) return settleWhole(input, report);
    return settleCut(exchange.outcome === "completed" ? { ...input, cut: "estimate" } : input, report);
  }
  if (report.isCounted || !(isAbandoned(exchange) || hasBrokenOff(exchange))) return settleWhole(input, report);
  if (isUnestimated(exchange, cut)) return { usage: ZERO_USAGE, source: cutSource(cut) };
  return { usage: withTier(estimateReceived(input), input), source: "estimated" };
}

/** Determines the usage of an exchange that is billed by what its provider reports, and estimates what that lacks. */
function settleWhole(input: SettlementInput, { reported, isCounted }: ReportedUsage): Settlement {
  const { exchange, reading, cut } = input;
  const { operation, outcome } = exchange;
  if (reported?.images) return { usage: withImages(exchange, reported, reported.images), source: "reported" };
  if (!reported || !isCounted) {
    // A provider that reports no usage, or none that can be parsed, has still done the work.
    if (outcome !== "completed" || !operation.generates || !isUnreported(reported, reading))
      return { usage: reported, source: "none" };
    return { usage: withTier({ ...reported, ...estimateReceived(input) }, input), source: "estimated" };
  }
  const lacksOutput = reported.out.total === undefined;
  const isText = operation.task === "generate" && operation.generates;
  if (lacksOutput && isText && reading.parser && !isUnestimated(exchange, cut))
    return { usage: completeOutput(reported, estimateReceived(input)), source: "partial" };
  if (isText && lacksInput(exchange, reported) && !isUnestimated(exchange, cut))
    return { usage: { ...reported, in: { ...reported.in, total: estimateInput(input) } }, source: "partial" };
  // An unfinished answer that was not requested in the background: nothing tells what the rest of it costs.
  const isFinal = reading.lateId !== undefined || reading.parser?.unfinished !== true;
  const isComplete = (hasArrived(exchange, reading) && !lacksOutput) || isUsageFinal(exchange);
  return { usage: reported, source: isFinal && isComplete ? "reported" : "partial" };
}

/** Reports whether a provider has counted an output, but no input, which no prompt is without. */
const lacksInput = (exchange: DoneExchange, { in: input, out }: Usage): boolean =>
  input.total === undefined && out.total !== undefined && responseProtocol(exchange).omitsZeroCounts !== true;

/** Determines the usage of an exchange that broke off, from received text or reported usage. */
function settleCut(input: SettlementInput, { reported, isCounted }: ReportedUsage): Settlement {
  const { cut } = input;
  const { delivered } = input.reading;
  if (!delivered) return { usage: reported, source: reported ? "partial" : "none" };
  if (cut === "observed" || cut === "absorb") return { usage: reported ?? ZERO_USAGE, source: cutSource(cut) };
  const usage = withTier(estimateCut(reported, delivered, input), input);
  return { usage, source: isCounted ? "partial" : "estimated" };
}

const cutSource = (cut: CutPolicy) => (cut === "absorb" ? "absorbed" : "observed");

/** Adds a tier to an estimate: the one in the frames, or else the more expensive one that was requested. */
function withTier(usage: Usage, { exchange, reading, asked }: SettlementInput): Usage {
  const { tier: first, lastFrame, previousFrame } = reading;
  if (usage.tier !== undefined && usage.tier !== "auto") return usage;
  const reportedTiers = [lastFrame, previousFrame].map(
    (frame) => frame && tryRead(() => reportedTier(frame, responseProtocol(exchange))),
  );
  const tier = reportedTiers.find((each) => each !== undefined) ?? first ?? asked.tier;
  return tier === undefined ? usage : { ...usage, tier };
}

/** Reports whether an exchange broke off and nothing is charged beyond what its provider has reported. */
const isUnestimated = ({ outcome }: DoneExchange, cut: CutPolicy): boolean =>
  outcome !== "completed" && (cut === "observed" || cut === "absorb");

/**
 * Reports whether a response has arrived to its end. When its client left before, its last frame was complete or followed
 * by usage.
 */
const hasArrived = (exchange: DoneExchange, { complete, lastFrame, previousFrame }: UsageReading): boolean =>
  exchange.outcome === "completed" ||
  (exchange.outcome === "aborted" &&
    (complete === true ||
      [lastFrame, previousFrame].some((frame) => frame && responseProtocol(exchange).ending(frame) === "complete")));

/** Reports whether no further usage will arrive; an error's usage is final. */
const isUsageFinal = ({ outcome, attempts }: DoneExchange): boolean =>
  outcome === "completed" || (attempts.at(-1)?.status ?? 0) >= 400;

/** Reports whether a response arrived without usage. */
const isUnreported = (usage: Usage | undefined, { delivered, parser }: UsageReading): boolean =>
  (delivered !== undefined || parser !== undefined) && usage?.providerCost === undefined;

/**
 * Reports whether a response is made in the background, whoever waits for it: the request that fetches it complete has its
 * usage, and an estimate would be charged in addition. Of a stream only where its provider has said so, as one that ignores the
 * request's member answers at once, and nobody fetches that again; nor one that has not arrived, whose id nobody knows.
 */
const isFetchedLater = (
  { wantsBackground }: DoneExchange,
  { delivered, background, complete }: UsageReading,
): boolean => wantsBackground && (delivered ? background : complete) === true;

/** Maximum credible tokens, calls of tools and images, and nano-dollars of one exchange: reports with more are ignored. */
const MAX_CREDIBLE_TOKENS = 1e9;
const MAX_CREDIBLE_CALLS = 1e6;
const MAX_CREDIBLE_COST = 1e15;
/** Maximum credible tools and counts, requests to further models, and characters of each name: all are stored. */
const MAX_CREDIBLE_PARTS = 100;
const MAX_CREDIBLE_REQUESTS = 1000;
const MAX_CREDIBLE_NAME = 256;
/** Names of token counts in vendors' usage. */
const TOKEN_COUNT = /(?:_tokens|TokenCount)$/;

function isCredible(usage: Usage): boolean {
  const { drawn, besides, serverTools, images, providerCost = 0, tier } = usage;
  if (!isCredibleName(tier) || !(Math.abs(providerCost) <= MAX_CREDIBLE_COST)) return false;
  if ((usage.in.total === undefined || usage.out.total === undefined) && hasInvalidCount(usage.raw)) return false;
  let tokens = credibleTokens(usage);
  if (drawn) tokens += credibleTokens(drawn);
  if (besides) {
    if (besides.length > MAX_CREDIBLE_REQUESTS) return false;
    for (const each of besides) tokens += credibleTokens(each);
  }
  let calls = images?.count ?? 0;
  if (serverTools) {
    const tools = Object.entries(serverTools);
    if (tools.length > MAX_CREDIBLE_PARTS || !tools.every(([name]) => isCredibleName(name))) return false;
    for (const [, count] of tools) calls += count;
  }
  return tokens <= MAX_CREDIBLE_TOKENS && calls <= MAX_CREDIBLE_CALLS;
}

const isCredibleName = (name = ""): boolean => name.length <= MAX_CREDIBLE_NAME;

/** Returns the tokens of a model; more than is credible where its name is too long. */
const credibleTokens = ({ in: input, out, model }: Pick<Usage, "in" | "out" | "model">): number =>
  isCredibleName(model) ? (input.total ?? 0) + (out.total ?? 0) : Number.POSITIVE_INFINITY;

/** Reports whether a count is a number that no count can be: it looks like one that was not reported. */
function hasInvalidCount(raw: unknown): boolean {
  const counts = (raw ?? {}) as Record<string, unknown>;
  let members = 0;
  for (const name in counts) {
    if (++members > MAX_CREDIBLE_PARTS) return true;
    const count = counts[name];
    if (typeof count === "number" && TOKEN_COUNT.test(name) && !(Number.isSafeInteger(count) && count >= 0))
      return true;
  }
  return false;
}

/** Tokens of an image for which a protocol's figure is none, as they are reserved. */
const UNKNOWN_IMAGE = 4096;
/** Bytes of a whole response around its text, on average. */
const WHOLE_OVERHEAD = 300;

/** Estimates the usage of a response without reported usage, from what arrived: images, or bytes of text. */
function estimateReceived(settled: SettlementInput): Usage {
  const { exchange, reading, asked, unseen } = settled;
  const { delivered, parser, hasImage } = reading;
  const { operation, attempt, protocol } = exchange;
  const input = { total: estimateInput(settled) };
  const images = (attempt?.protocol ?? protocol).images;
  // Partial images of a stream all belong to one image.
  const imageCount = hasImage ? 1 : (parser?.imageCount ?? 0);
  if (images && imageCount > 0) {
    const tokens = images.tokensOf(attempt?.target.model, (name) => askedOf(exchange, name));
    const total = imageCount * (tokens >= 0 && tokens <= MAX_CREDIBLE_TOKENS ? tokens : UNKNOWN_IMAGE);
    return withImages(exchange, { in: input, out: { total, image: total }, raw: undefined }, { count: imageCount });
  }
  const received = parser?.bytes || attempt?.unreadBytes || 0;
  if (operation.task !== "generate") return { in: input, out: { total: 0 }, raw: undefined };
  if (delivered) {
    const out = deliveredOutput({}, delivered, unseen.expected(exchange, asked, delivered), asked.output);
    return { in: input, out, raw: undefined };
  }
  const text = wholeTokens(parser?.json, received, exchange);
  return { in: input, out: { total: limitOutput(text, asked.output) }, raw: undefined };
}

/** Returns what a request says in a member, or in a field of its form. */
const askedOf = ({ body, form }: DoneExchange, name: string): unknown =>
  form ? form.fields.get(name) : body.member(name) && body.value(name);

/** Estimates the output tokens of a whole response: by its texts, where it is short, or else by its bytes. */
function wholeTokens(json: unknown, received: number, exchange: DoneExchange): number {
  const short = tryRead(() => answerTokens(json, responseProtocol(exchange), exchange.attempt?.target.model));
  return short ?? Math.ceil(Math.max(0, received - WHOLE_OVERHEAD) / BYTES_PER_TOKEN);
}

/** Fills in what a whole answer's usage lacks: its text is billed whether or not it is counted. */
function completeOutput(reported: Usage, estimate: Usage): Usage {
  const total = Math.max(estimate.out.total ?? 0, reported.out.reasoning ?? 0);
  return { ...reported, out: { ...reported.out, total } };
}

/** Returns an estimate of output tokens, at most as many as the request allows. */
const limitOutput = (tokens: number, most = Number.POSITIVE_INFINITY): number => Math.min(tokens, most);

/** Outcomes that are not the provider's fault, after which it may still have done the work. */
const ABANDONED_OUTCOMES: ReadonlySet<DoneExchange["outcome"]> = new Set(["aborted", "interrupted", "rejected"]);

/**
 * Reports whether a request was abandoned after a provider had received it, without an error from the provider: it costs its
 * input at least.
 */
function isAbandoned({ outcome, operation, body, attempts }: DoneExchange): boolean {
  if (!ABANDONED_OUTCOMES.has(outcome) || !operation.generates || body.length === 0) return false;
  const { sent, status = 200, error } = attempts.at(-1) ?? { sent: false };
  return sent && status < 300 && error?.code.startsWith("upstream_") !== true;
}

/** Errors of answers that broke off, or were given up: there was no room to buffer them, or a plugin has failed. */
const BREAKS: ReadonlySet<string> = new Set([
  ...["upstream_truncated", "upstream_timeout", "overloaded"],
  ...["plugin_failed", "plugin_timeout"],
]);

/** Reports whether a successful answer broke off: its provider has done the work, and bills it. */
const hasBrokenOff = ({ error, operation, attempts }: DoneExchange): boolean =>
  operation.generates && BREAKS.has(error?.code ?? "") && (attempts.at(-1)?.status ?? 500) < 300;

/** Adds the request's image settings to usage where the response has none. */
function withImages(exchange: DoneExchange, usage: Usage, reported: NonNullable<Usage["images"]>): Usage {
  const { operation, attempt, protocol, form } = exchange;
  const images = (attempt?.protocol ?? protocol).images;
  if (!images) return usage;
  const asked = (name: "size" | "quality") => {
    if (reported[name] !== undefined) return {};
    const value = askedOf(exchange, images[`${name}Member`]);
    // A form's field may be in what has not arrived, and is empty where it is no short text: then no price fits.
    if (form && (value === "" || (value === undefined && !form.replayable))) return { [name]: "unread" };
    return typeof value === "string" ? { [name]: value } : {};
  };
  const edited = images.editOperations.includes(operation.name) ? { edited: true as const } : {};
  return { ...usage, images: { ...reported, ...asked("size"), ...asked("quality"), ...edited } };
}

/** Usage that costs nothing. */
export const ZERO_USAGE: Usage = { in: { total: 0 }, out: { total: 0 }, raw: undefined };

/** Estimates the usage of a stream that reported too little. */
function estimateCut(reported: Usage | undefined, delivered: DeliveredTokens, input: SettlementInput): Usage {
  const { exchange, asked, unseen } = input;
  return {
    ...reported,
    in: { ...reported?.in, total: reported?.in.total ?? estimateInput(input) },
    out: deliveredOutput(reported?.out ?? {}, delivered, unseen.expected(exchange, asked, delivered), asked.output),
    raw: reported?.raw,
  };
}

/**
 * Estimates the output of a stream that reported too little. Where its provider has counted reasoning so far (Gemini, in most
 * frames), that count is exact, and its trace in the stream is not estimated.
 * @param unseen tokens of each part of reasoning that has left no trace, or none but its end, before the output that arrived;
 * undefined: nothing is known of them
 * @param most the most output tokens that the request allows
 */
export function deliveredOutput(
  reported: Usage["out"],
  delivered: DeliveredTokens,
  unseen?: number,
  most?: number,
): Usage["out"] {
  const isCounted = (reported.reasoning ?? 0) > 0;
  const parts = isCounted || reported.total !== undefined ? 0 : delivered.unseenParts;
  const learned = parts > 0 && unseen !== undefined ? Math.round(unseen * parts) : undefined;
  const tokens = isCounted ? delivered.shown : learned === undefined ? delivered.tokens : delivered.shown + learned;
  const total = Math.max(reported.total ?? 0, limitOutput(tokens, most));
  const reasoning = isCounted ? 0 : Math.min(learned ?? delivered.reasoning, total);
  return { ...delivered.media, ...reported, ...(reasoning > 0 && { reasoning }), total };
}

/** Estimates the request's tokens: while the exchange goes on by its size alone, which costs nothing. */
const estimateInput = ({ exchange, asked, isRunning }: SettlementInput): number =>
  isRunning ? tokensOfBytes(asked.bytes) : (asked.tokens ?? tokensOfBytes(exchange.body.length));

/** Bytes of a request per token, on average. */
const BYTES_PER_TOKEN = 4;
/** Estimates the tokens of a request by its size. */
export const tokensOfBytes = (bytes: number): number => Math.ceil(bytes / BYTES_PER_TOKEN);
