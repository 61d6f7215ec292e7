import {
  type AccessExchange,
  type Answer,
  type Attempt,
  type DoneExchange,
  type Frame,
  GatewayError,
  type Head,
  Marketplace,
  Options,
  type Plugin,
  Redactor,
  type ResponseExchange,
  type SendExchange,
  type Stage,
  slot,
  Translations,
} from "model-gateway";
import { JsonUsage, Ledger, type LedgerEntry, type Usage } from "model-gateway/store";
import { inject, injectable } from "tsyringe";
import { z } from "zod";
import { DeliveredTokens } from "./usage/delivered-tokens.ts";
import { withDrawingModel } from "./usage/drawing-model.ts";
import { ledgerAttempt } from "./usage/ledger-attempt.ts";
import { requestedOutput } from "./usage/output-limit.ts";
import { hasCounts, hasTokens, priceUsage, usageTokens } from "./usage/price.ts";
import { addReasons } from "./usage/reasons.ts";
import { REQUEST_RECORD } from "./usage/request-facts.ts";
import { requestedTokens } from "./usage/requested.ts";
import { reportedTier, requestedTier } from "./usage/tier.ts";

/** What is known of a response besides the usage that its provider reports. */
interface UsageReading {
  /** Whether the ledger has an entry for the running exchange. */
  started?: true;
  delivered?: DeliveredTokens;
  /** The response's id, where its usage may be reported again. */
  lateId?: string | undefined;
  /** Whether it arrived completely, even if no client received it. */
  complete?: true;
  /** The parser of a whole response. */
  parser?: JsonUsage;
  /** The last two frames: they are inspected only when the client leaves, to see whether the stream had ended. */
  lastFrame?: Frame | undefined;
  previousFrame?: Frame | undefined;
  /** The service tier in one of the first frames. */
  tier?: string | undefined;
  /** Number of frames searched for it. */
  frames?: number;
  /** Whether a streamed image has begun. */
  hasImage?: true;
  /** When the ledger gets its next interim entry, in milliseconds since the exchange began. */
  nextInterim?: number;
}

/** Milliseconds between interim entries of a stream: the most that is missing if the gateway is killed. */
const INTERIM_INTERVAL = 5000;
/** Frames between two clock reads for that: a power of two. */
const INTERIM_FRAMES = 16;

/** What is billed for a stream that breaks off before its provider has reported usage. */
const CUT_POLICIES = ["estimate", "observed", "absorb", "drain"] as const;
type CutPolicy = (typeof CUT_POLICIES)[number];

/** Reads a response's token usage without changing it, and writes one ledger entry for each exchange. */
@injectable()
export default class UsagePlugin implements Plugin {
  static after = ["models"];
  static answers = { one: REQUEST_RECORD };
  static options = z.strictObject({
    cut: z
      .enum(CUT_POLICIES)
      .default("estimate")
      .describe(
        "What is charged for a stream that breaks off before its provider has reported usage: `estimate`, an estimate of the text that arrived; `observed`, the usage reported by then; `absorb`, nothing; `drain`, all of it: from when a provider has the request, its answer, streamed or whole, is read to its end for its usage, even if the client leaves.",
      ),
  });

  private readonly reading = slot((): UsageReading => ({}));

  constructor(
    private readonly ledger: Ledger,
    private readonly translations: Translations,
    private readonly marketplace: Marketplace,
    private readonly redactor: Redactor,
    @inject(Options) private readonly options: z.infer<typeof UsagePlugin.options>,
  ) {}

  send(exchange: SendExchange, attempt: Attempt): void {
    exchange.dryRun?.notes.push("would write a ledger row");
    if (exchange.dryRun) return;
    const reading = this.reading(exchange);
    // It may not be the first attempt: other plugins may have refused that one.
    if (!reading.started) this.ledger.begin(initialEntry(exchange, attempt, this.options.cut, this.marketplace));
    reading.started = true;
    if (this.options.cut === "drain" && exchange.operation.generates) exchange.drain = true;
    if (isSocket(exchange)) exchange.onUsage = (running: DoneExchange) => this.writeInterim(running, reading);
  }

  response(exchange: ResponseExchange, head: Head): Stage | undefined {
    const { generates, storedResponseId } = exchange.operation;
    if (!generates && storedResponseId === undefined) return undefined;
    if (head.status >= 400 && !head.framing) return generates ? errorStage(exchange) : undefined;
    if (head.status >= 300) return undefined;
    const reading = this.reading(exchange);
    const { cut } = this.options;
    if (head.framing && cut !== "absorb") exchange.drain ||= cut === "drain" || "end";
    return head.framing
      ? streamStage(exchange, reading, () => this.writeInterimIfDue(exchange, reading))
      : wholeStage(exchange, reading);
  }

  /** Writes an interim entry for a running stream, at intervals. */
  private writeInterimIfDue(exchange: ResponseExchange, reading: UsageReading): void {
    const { elapsed } = exchange;
    reading.nextInterim ??= INTERIM_INTERVAL;
    if (elapsed < reading.nextInterim) return;
    reading.nextInterim = elapsed + INTERIM_INTERVAL;
    this.writeInterim(exchange.asEnded, reading);
  }

  /** Writes the entry that stands if nothing follows: as for a stream that breaks off now. */
  private writeInterim(exchange: DoneExchange, reading: UsageReading): void {
    if (!exchange.operation.generates) return;
    const { marketplace, redactor } = this;
    const settled = settleCut(exchange, reading, this.options.cut, () => tokensOfBytes(exchange.attempt?.body.length));
    const now = finalEntry(exchange, settled, undefined, { marketplace, redactor });
    this.ledger.begin({ ...now, outcome: "interrupted" });
  }

  /** Responds to `GET /v1/requests/{id}` with the ledger's entry of a request, for the key that made it. */
  async serve({ path, caller }: AccessExchange): Promise<Answer> {
    const id = path.split("/").slice(3).join("/");
    const [found] =
      id === ""
        ? []
        : await this.ledger.search({ id, limit: 1 }).catch((cause: unknown) => {
            throw Ledger.unavailableError(cause);
          });
    if (!found || !caller || found.key !== caller.id)
      throw new GatewayError("object_not_found", {
        message: "This key has made no request with that id.",
        hint: "The id is the answer's x-request-id; what still runs is recorded when it has ended.",
      });
    const { key: _, group: __, tags: ___, once: ____, address: _____, assumedCost: ______, ...entry } = found;
    // The credential used at a provider is visible to the operator only.
    const attempts = entry.attempts.map(({ credential: _, ...attempt }) => attempt);
    return { status: 200, body: JSON.stringify({ object: "request", ...entry, attempts }) };
  }

  done(exchange: DoneExchange): void {
    if (exchange.dryRun) return;
    exchange.onUsage = undefined;
    const reading = this.reading(exchange);
    readUnseen(exchange, reading);
    const tokensIn = () => requestedTokens(exchange, this.translations) ?? tokensOfBytes(exchange.body.length);
    const settled = settle(exchange, reading, this.options.cut, tokensIn);
    const { marketplace, redactor } = this;
    const written = finalEntry(exchange, settled, reading.lateId, { marketplace, redactor });
    addReasons(written, exchange, redactor);
    exchange.charge = chargeOf(written);
    this.ledger.append(written);
  }
}

/** Reads what arrived of a response that broke off while a plugin after this one was reading it. */
function readUnseen(exchange: DoneExchange, reading: UsageReading): void {
  const { head, operation } = exchange;
  if (!head?.received || head.status >= 300 || !operation.generates || reading.parser || reading.delivered) return;
  const stage = head.framing ? streamStage(exchange, reading, () => {}) : wholeStage(exchange, reading);
  for (const frame of tryRead(head.received) ?? []) stage(frame);
}

/** The usage that is billed, and its source. */
interface Settlement {
  usage: Usage | undefined;
  source: LedgerEntry["source"];
}

/** Determines the usage to bill. @param tokensIn estimates the request's tokens */
function settle(exchange: DoneExchange, reading: UsageReading, cut: CutPolicy, tokensIn: () => number): Settlement {
  const { operation, outcome } = exchange;
  const { delivered } = reading;
  const ended = outcome === "aborted" && hasEnded(exchange, reading);
  const reported = credibleUsage(exchange);
  const isTold = reported !== undefined && hasCounts(reported);
  const isCut = outcome !== "completed" && (cut === "observed" || cut === "absorb");
  const isText = operation.task === "generate";
  if (!(delivered && isText) && !isTold && (isAbandoned(exchange) || hasBrokenOff(exchange))) {
    if (isCut) return { usage: ZERO_USAGE, source: cutSource(cut) };
    return { usage: withTier(estimateReceived(exchange, reading, tokensIn), exchange, reading), source: "estimated" };
  }
  const isWhole = (outcome === "completed" || ended) && reported?.out.total !== undefined;
  if (isWhole || !delivered || !isText) {
    if (reported?.images) return { usage: withImages(exchange, reported, reported.images), source: "reported" };
    // A vendor may stop waiting for an answer that nobody asked to be made later; nothing tells what the rest of it costs.
    const isFinal = reading.lateId !== undefined || reading.parser?.unfinished !== true;
    if (isTold && isText && operation.generates && reading.parser && reported.out.total === undefined && !isCut)
      return { usage: completeOutput(reported, estimateReceived(exchange, reading, tokensIn)), source: "partial" };
    if (isTold)
      return { usage: reported, source: isFinal && (isWhole || isUsageFinal(exchange)) ? "reported" : "partial" };
    // A provider that reports no usage, or none that can be parsed, has still done the work.
    if (outcome === "completed" && operation.generates && isUnreported(exchange, reading))
      return {
        usage: withTier({ ...reported, ...estimateReceived(exchange, reading, tokensIn) }, exchange, reading),
        source: "estimated",
      };
    return { usage: reported, source: "none" };
  }
  return settleCut(exchange, reading, outcome === "completed" ? "estimate" : cut, tokensIn);
}

/** Determines the usage of an exchange that broke off, from received text or reported usage. */
function settleCut(exchange: DoneExchange, reading: UsageReading, cut: CutPolicy, tokensIn: () => number): Settlement {
  const reported = credibleUsage(exchange);
  const { delivered } = reading;
  const source = reported && hasCounts(reported) ? "partial" : "estimated";
  if (!delivered) return { usage: reported, source: reported ? "partial" : "none" };
  if (cut === "observed" || cut === "absorb") return { usage: reported ?? ZERO_USAGE, source: cutSource(cut) };
  return { usage: withTier(estimateCut(reported, delivered, tokensIn, exchange), exchange, reading), source };
}

const cutSource = (cut: CutPolicy) => (cut === "absorb" ? "absorbed" : "observed");

/** Returns the reported usage, if it is credible. */
const credibleUsage = ({ usage }: DoneExchange): Usage | undefined => (usage && isCredible(usage) ? usage : undefined);

/** Reports whether an exchange is a WebSocket, on which usage is reported for each response. */
const isSocket = ({ protocol, operation }: SendExchange): boolean =>
  protocol.socket !== undefined && operation.generates && operation.body === "none";

/** Adds a tier to an estimate: the one in the frames, or else the more expensive one that was requested. */
function withTier(
  usage: Usage,
  exchange: DoneExchange,
  { tier: first, lastFrame, previousFrame }: UsageReading,
): Usage {
  if (usage.tier !== undefined && usage.tier !== "auto") return usage;
  const told = [lastFrame, previousFrame].map(
    (frame) => frame && tryRead(() => reportedTier(frame, responseProtocol(exchange))),
  );
  const attempt = exchange.attempt ?? exchange.attempts.at(-1);
  const asked = () => (attempt && !exchange.form ? requestedTier(attempt, exchange.time) : undefined);
  const tier = told.find((each) => each !== undefined) ?? first ?? asked();
  return tier === undefined ? usage : { ...usage, tier };
}

/** Reads a frame; undefined where it is not JSON, which was logged when it arrived. */
function tryRead<Result>(read: () => Result): Result | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

/** Reports whether a stream had ended when its client left: its last frame was complete, or followed by usage. */
const hasEnded = (exchange: DoneExchange, { complete, lastFrame, previousFrame }: UsageReading): boolean =>
  complete === true ||
  [lastFrame, previousFrame].some((frame) => frame && responseProtocol(exchange).ending(frame) === "complete");

/** Reports whether no further usage will arrive; an error's usage is final. */
const isUsageFinal = ({ outcome, attempts }: DoneExchange): boolean =>
  outcome === "completed" || (attempts.at(-1)?.status ?? 0) >= 400;

/**
 * Reports whether a response arrived without usage; for one that is generated later, the request that fetches it has the
 * usage.
 */
function isUnreported({ protocol, body, usage }: DoneExchange, { delivered, parser }: UsageReading): boolean {
  if ((!delivered && !parser) || usage?.providerCost !== undefined) return false;
  const { background } = protocol.output ?? {};
  const kind = background === undefined ? undefined : body.member(background)?.kind;
  return kind === undefined || kind === "false" || kind === "null";
}

/** Maximum credible tokens of one exchange: higher reports are ignored. */
const MAX_CREDIBLE_TOKENS = 1e9;

const isCredible = ({ in: input, out }: Usage): boolean =>
  (input.total ?? 0) <= MAX_CREDIBLE_TOKENS && (out.total ?? 0) <= MAX_CREDIBLE_TOKENS;

/** Bytes of a whole response around its text, on average. */
const WHOLE_OVERHEAD = 300;

/** Estimates the usage of a response without reported usage, from what arrived: images, or bytes of text. */
function estimateReceived(
  exchange: DoneExchange,
  { delivered, parser, hasImage }: UsageReading,
  tokensIn: () => number,
): Usage {
  const { operation, attempt, protocol } = exchange;
  const input = { total: tokensIn() };
  const images = (attempt?.protocol ?? protocol).images;
  // Partial images of a stream all belong to one image.
  const imageCount = hasImage ? 1 : (parser?.imageCount ?? 0);
  if (images && imageCount > 0) {
    const total = imageCount * images.maxTokens;
    return withImages(exchange, { in: input, out: { total, image: total }, raw: undefined }, { count: imageCount });
  }
  const received = parser?.bytes || attempt?.unreadBytes || 0;
  const text = delivered?.tokens ?? Math.ceil(Math.max(0, received - WHOLE_OVERHEAD) / BYTES_PER_TOKEN);
  const total = operation.task === "generate" ? limitOutput(text, exchange) : 0;
  return { in: input, out: { total }, raw: undefined };
}

/** Fills in what a whole answer's usage lacks: its text is billed whether or not it is counted. */
function completeOutput(reported: Usage, estimate: Usage): Usage {
  const total = Math.max(estimate.out.total ?? 0, reported.out.reasoning ?? 0);
  return { ...reported, out: { ...reported.out, total } };
}

/** Returns an estimate of output tokens, at most as many as the request allows. */
function limitOutput(tokens: number, exchange: DoneExchange): number {
  const attempt = exchange.attempt ?? exchange.attempts.at(-1);
  const limit = attempt && !exchange.form ? tryRead(() => requestedOutput(attempt)) : undefined;
  return Math.min(tokens, limit ?? Number.POSITIVE_INFINITY);
}

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

/** Errors of answers that broke off. */
const BREAKS: ReadonlySet<string> = new Set(["upstream_truncated", "upstream_timeout"]);

/** Reports whether a successful answer broke off: its provider has done the work, and bills it. */
const hasBrokenOff = ({ error, operation, attempts }: DoneExchange): boolean =>
  operation.generates && BREAKS.has(error?.code ?? "") && (attempts.at(-1)?.status ?? 500) < 300;

/** Adds the request's image settings to usage where the response has none. Form fields are not read. */
function withImages(
  { operation, attempt, protocol, body, form }: DoneExchange,
  usage: Usage,
  told: NonNullable<Usage["images"]>,
): Usage {
  const images = (attempt?.protocol ?? protocol).images;
  if (!images) return usage;
  const asked = (name: "size" | "quality") => {
    if (told[name] !== undefined) return {};
    if (form) return { [name]: "unread" };
    const value = body.member(images[`${name}Member`]) && body.value(images[`${name}Member`]);
    return typeof value === "string" ? { [name]: value } : {};
  };
  const edited = images.editOperations.includes(operation.name) ? { edited: true as const } : {};
  return { ...usage, images: { ...told, ...asked("size"), ...asked("quality"), ...edited } };
}

const ZERO_USAGE: Usage = { in: { total: 0 }, out: { total: 0 }, raw: undefined };

/** Estimates the usage of a stream that reported too little. */
function estimateCut(
  reported: Usage | undefined,
  delivered: DeliveredTokens,
  tokensIn: () => number,
  exchange: DoneExchange,
): Usage {
  return {
    ...reported,
    in: { ...reported?.in, total: reported?.in.total ?? tokensIn() },
    out: {
      ...delivered.media,
      ...reported?.out,
      total: Math.max(reported?.out.total ?? 0, limitOutput(delivered.tokens, exchange)),
    },
    raw: reported?.raw,
  };
}

/** Returns the protocol of the frames: that of the responding provider. */
const responseProtocol = ({ attempt, protocol }: Pick<ResponseExchange, "attempt" | "protocol">) =>
  attempt?.protocol ?? protocol;

const QUOTE = 0x22;

/** Number of first frames searched for the tier: each frame with a tier would be parsed otherwise. */
const TIER_FRAMES = 3;

/**
 * Parses only frames with usage, and the first ones for the tier. Parse errors are logged, and the client's stream continues.
 */
function streamStage(exchange: ResponseExchange | DoneExchange, reading: UsageReading, onTheWay: () => void): Stage {
  const protocol = responseProtocol(exchange);
  const { generates, task } = exchange.operation;
  const isText = generates && task === "generate";
  const delivered = generates ? new DeliveredTokens(protocol, exchange.attempt?.target.model) : undefined;
  const marks = protocol.images?.contentMembers;
  if (delivered) {
    reading.delivered = delivered;
    exchange.progress = delivered;
  }
  const see = (frame: Frame): void => {
    if (exchange.aborted && protocol.ending(frame) === "complete") reading.complete = true;
    reading.previousFrame = reading.lastFrame;
    reading.lastFrame = frame;
    delivered?.observe(frame);
    reading.frames = (reading.frames ?? 0) + 1;
    if (generates && reading.frames <= TIER_FRAMES) reading.tier ??= tryRead(() => reportedTier(frame, protocol));
    if (marks?.some((mark) => frame.mayContain(mark, QUOTE))) reading.hasImage = true;
    if (!protocol.holdsUsage(frame)) return;
    const json = frame.json();
    const late = protocol.storedResponses?.background.id(json);
    if (!generates && late === undefined) return;
    const usage = protocol.usage(json, exchange.usage);
    if (!usage) return;
    exchange.usage = usage;
    reading.lateId = late;
  };
  return (frame) => {
    try {
      see(frame);
      if (isText && (reading.frames ?? 0) % INTERIM_FRAMES === 0) onTheWay();
    } catch (thrown) {
      exchange.usageError ??= JsonUsage.loggableError(thrown);
    }
  };
}

function wholeStage(exchange: ResponseExchange | DoneExchange, reading: UsageReading): Stage {
  const usage = new JsonUsage([responseProtocol(exchange)]);
  reading.parser = usage;
  return ({ kind, bytes }) => {
    if (kind !== "end") {
      usage.push(bytes);
      return;
    }
    reading.complete = true;
    const found = usage.end();
    exchange.usageError = usage.fault;
    // A stored response has reported its usage when it was generated, unless it was generated later.
    if (!exchange.operation.generates && usage.late === undefined) return;
    exchange.usage = found;
    reading.lateId = usage.late;
  };
}

/** Reads usage from an error, which has it only where its provider has worked on the request, and bills that. */
function errorStage(exchange: ResponseExchange): Stage {
  const usage = new JsonUsage([responseProtocol(exchange)]);
  return ({ kind, bytes }) => {
    if (kind !== "end") {
      usage.push(bytes);
      return;
    }
    const found = usage.end();
    if (found && hasTokens(found)) exchange.usage = found;
  };
}

/** Bytes of a request per token, on average. */
const BYTES_PER_TOKEN = 4;
const tokensOfBytes = (bytes = 0): number => Math.ceil(bytes / BYTES_PER_TOKEN);

/** Returns an exchange's first entry, which stands if nothing follows: as if there were no response. */
function initialEntry(exchange: SendExchange, attempt: Attempt, cut: CutPolicy, prices: Marketplace): LedgerEntry {
  const { target, body } = attempt;
  const estimates = cut === "estimate" || cut === "drain";
  const tier = exchange.form ? undefined : requestedTier(attempt, exchange.time);
  const usage = estimates
    ? { in: { total: tokensOfBytes(body.length) }, out: {}, raw: undefined, ...(tier && { tier }) }
    : ZERO_USAGE;
  const known = exchange.operation.generates && body.length > 0;
  const entry: LedgerEntry = {
    id: exchange.id,
    time: exchange.time,
    key: exchange.caller?.id ?? "",
    model: target.modelId ?? exchange.model?.id ?? "",
    target: Marketplace.nameOf(attempt.target),
    protocol: exchange.protocol.name,
    operation: exchange.operation.name,
    status: 0,
    outcome: "interrupted",
    streaming: false,
    attempts: [{ target: Marketplace.nameOf(attempt.target), startedAt: Math.round(attempt.startedAt) }],
    duration: 0,
    source: !known ? "none" : estimates ? "estimated" : cut === "absorb" ? "absorbed" : "observed",
  };
  addCaller(entry, exchange);
  if (known) Object.assign(entry, { usage }, priceUsage(target, exchange.time, usage, prices));
  return entry;
}

/** Adds the key's current group and tags, and the client's address. */
function addCaller(entry: LedgerEntry, { caller, address }: Pick<DoneExchange, "caller" | "address">): void {
  if (caller?.group !== undefined) entry.group = caller.group;
  if (caller?.tags) entry.tags = caller.tags;
  if (address !== "") entry.address = address;
}

/** Client-error statuses with which a provider gives up on a request, after possibly working on it. */
const CHARGED_STATUSES: readonly number[] = [408, 499];

/** Reports whether an attempt certainly costs nothing: no provider received it, or one refused it. */
const isFree = ({ sent, status = 0 }: Attempt): boolean =>
  !sent || (status >= 400 && status < 500 && !CHARGED_STATUSES.includes(status));

function finalEntry(
  exchange: DoneExchange,
  { usage: settled, source }: Settlement,
  late: string | undefined,
  { marketplace, redactor }: { marketplace: Marketplace; redactor: Redactor },
): LedgerEntry {
  const { attempts, model, firstByte, outcome, answerer } = exchange;
  const last = attempts.at(-1);
  const usage = settled && last ? withDrawingModel(settled, last) : settled;
  const free = attempts.every(isFree) && !(usage && hasCounts(usage));
  const entry: LedgerEntry = {
    id: exchange.id,
    time: exchange.time,
    key: exchange.caller?.id ?? "",
    model: last?.target.modelId ?? model?.id ?? "",
    target: last ? Marketplace.nameOf(last.target) : answerer ? `answered by ${answerer.name}` : "",
    protocol: exchange.protocol.name,
    operation: exchange.operation.name,
    status: exchange.status,
    outcome,
    streaming: exchange.streaming,
    attempts: attempts.map((attempt) => ledgerAttempt(attempt, exchange, redactor)),
    duration: Math.round(exchange.elapsed),
    source: free ? "free" : source,
  };
  addCaller(entry, exchange);
  if (firstByte !== undefined) entry.firstByte = Math.round(firstByte);
  if (exchange.received !== undefined) entry.bytes = { up: exchange.received, down: exchange.written };
  if (usage) entry.usage = usage;
  if (usage && late !== undefined) entry.once = `${last?.target.provider.name} ${late}`;
  if (free || source === "absorbed") entry.cost = 0;
  else if (usage) Object.assign(entry, priceUsage(last?.target, exchange.time, usage, marketplace));
  return entry;
}

type Writable<Type> = { -readonly [Name in keyof Type]: Type[Name] };

/** Returns what limits count of an entry: the same as budgets read from its row after a restart. */
function chargeOf(entry: LedgerEntry): NonNullable<DoneExchange["charge"]> {
  const { usage, once, source, assumedCost = 0, cost: priced } = entry;
  const charge: Writable<NonNullable<DoneExchange["charge"]>> = {
    tokens: usage ? usageTokens(usage) : 0,
    cost: priced ?? assumedCost,
    estimated: source === "estimated" || source === "partial",
  };
  if (usage) charge.usage = usage;
  if (priced !== undefined) charge.priced = priced;
  if (once !== undefined) charge.once = once;
  return charge;
}
