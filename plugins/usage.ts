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
import { Delivered } from "./usage/delivered.ts";
import { counts, floorOf, isWork, priced, tokensOf } from "./usage/priced.ts";
import { REQUEST } from "./usage/request-facts.ts";
import { askedTier, tierIn } from "./usage/tier.ts";
import { tried } from "./usage/tried.ts";
import { tellWhy } from "./usage/why.ts";

/** What is known of an answer besides the usage that its provider tells. */
interface Reading {
  /** The ledger knows that it runs. */
  begun?: true;
  delivered?: Delivered;
  /** The answer's id, where its usage may be told again. */
  late?: string | undefined;
  /** All of it has come, though nobody took it. */
  ended?: true;
  /** What has come of a whole answer. */
  whole?: JsonUsage;
  /** The last frames: whether a stream had ended when its client left is only looked at then. */
  last?: Frame | undefined;
  before?: Frame | undefined;
  /** The service tier that one of the first frames told. */
  tier?: string | undefined;
  /** Frames that were looked at for it. */
  looked?: number;
  /** A streamed picture has begun to come. */
  pictured?: true;
  /** When the ledger is told next what has come so far, in milliseconds since the exchange began. */
  due?: number;
}

/** Milliseconds between two lines about a stream that runs: so much of it is not billed at most if the gateway is killed. */
const SO_FAR = 5000;
/** Frames between two looks at the clock for that: a power of two. */
const LOOKS = 16;

/** What counts of a stream that breaks off before its provider has told its usage. */
const CUT = ["estimate", "observed", "absorb", "drain"] as const;
type Cut = (typeof CUT)[number];

/** Reads what an answer says of its tokens, without touching it, and writes one ledger entry for each exchange. */
@injectable()
export default class UsageOf implements Plugin {
  static after = ["models"];
  static answers = { one: REQUEST };
  static options = z.strictObject({
    cut: z
      .enum(CUT)
      .default("estimate")
      .describe(
        "What counts of a stream that breaks off before its provider has told its usage: `estimate`, what came, about; `observed`, what the provider told by then; `absorb`, nothing; `drain`, all of it: once a client has left the rest is read for its usage.",
      ),
  });

  private readonly reading = slot((): Reading => ({}));

  constructor(
    private readonly ledger: Ledger,
    private readonly translations: Translations,
    private readonly marketplace: Marketplace,
    private readonly redactor: Redactor,
    @inject(Options) private readonly options: z.infer<typeof UsageOf.options>,
  ) {}

  send(exchange: SendExchange, attempt: Attempt): void {
    exchange.dryRun?.notes.push("would write a row of the ledger");
    if (exchange.dryRun) return;
    const reading = this.reading(exchange);
    // Not the first attempt for sure: plugins in front may have refused that one.
    if (!reading.begun) this.ledger.begin(begun(exchange, attempt, this.options.cut, this.marketplace));
    reading.begun = true;
    if (isSocket(exchange)) exchange.told = (running: DoneExchange) => this.soFar(running, reading);
  }

  response(exchange: ResponseExchange, head: Head): Stage | undefined {
    const { generates, kept } = exchange.operation;
    if (!generates && kept === undefined) return undefined;
    if (head.status >= 400 && !head.framing) return generates ? failed(exchange) : undefined;
    if (head.status >= 300) return undefined;
    const reading = this.reading(exchange);
    const { cut } = this.options;
    if (head.framing && cut !== "absorb") exchange.drains ||= cut === "drain" || "end";
    return head.framing
      ? streamed(exchange, reading, () => this.onTheWay(exchange, reading))
      : whole(exchange, reading);
  }

  /** Tells the ledger what a stream that runs has brought, now and then. */
  private onTheWay(exchange: ResponseExchange, reading: Reading): void {
    const { elapsed } = exchange;
    reading.due ??= SO_FAR;
    if (elapsed < reading.due) return;
    reading.due = elapsed + SO_FAR;
    // It has all that an ended one has, as of now.
    this.soFar(exchange as unknown as DoneExchange, reading);
  }

  /** What the ledger shall have if nothing more is heard: as of one that breaks off now. */
  private soFar(exchange: DoneExchange, reading: Reading): void {
    if (!exchange.operation.generates) return;
    const { marketplace, redactor } = this;
    const settled = brokenOff(exchange, reading, this.options.cut, () => tokensOfBytes(exchange.attempt?.body.length));
    const now = entry(exchange, settled, undefined, { marketplace, redactor });
    this.ledger.begin({ ...now, outcome: "interrupted" });
  }

  /** `GET /v1/requests/{id}`: what the ledger has of a request, for the key that made it. */
  async serve({ path, caller }: AccessExchange): Promise<Answer> {
    const id = path.split("/").slice(3).join("/");
    const [found] =
      id === ""
        ? []
        : await this.ledger.search({ id, limit: 1 }).catch((cause: unknown) => {
            throw Ledger.silent(cause);
          });
    if (!found || !caller || found.key !== caller.id)
      throw new GatewayError("object_not_found", {
        message: "This key has made no request with that id.",
        hint: "The id is the answer's x-request-id; what still runs is recorded when it has ended.",
      });
    const { key: _, group: __, tags: ___, once: ____, address: _____, ...entry } = found;
    // By which of its credentials a provider was asked is the operator's.
    const attempts = entry.attempts.map(({ credential: _, ...attempt }) => attempt);
    return { status: 200, body: JSON.stringify({ object: "request", ...entry, attempts }) };
  }

  done(exchange: DoneExchange): void {
    if (exchange.dryRun) return;
    exchange.told = undefined;
    const reading = this.reading(exchange);
    const settled = settlement(exchange, reading, this.options.cut, () => this.translations.tokensIn(exchange));
    const { marketplace, redactor } = this;
    const written = entry(exchange, settled, reading.late, { marketplace, redactor });
    tellWhy(written, exchange, redactor);
    exchange.charge = chargeOf(written, exchange);
    this.ledger.append(written);
  }
}

/** The usage that counts, and how it is known. */
interface Settlement {
  usage: Usage | undefined;
  source: LedgerEntry["source"];
}

/** @param tokensIn about how many tokens the request has */
function settlement(
  exchange: DoneExchange,
  reading: Reading,
  cut: Cut,
  tokensIn: () => number | undefined,
): Settlement {
  const { operation, outcome } = exchange;
  const { delivered } = reading;
  const ended = outcome === "aborted" && hasEnded(exchange, reading);
  const reported = reportedIn(exchange);
  const isTold = reported !== undefined && counts(reported);
  const isCut = outcome !== "completed" && (cut === "observed" || cut === "absorb");
  const isText = operation.task === "generate";
  if (!(delivered && isText) && !isTold && isLeft(exchange)) {
    if (isCut) return { usage: NOTHING, source: uncounted(cut) };
    return { usage: tiered(brought(exchange, reading, tokensIn), exchange, reading), source: "estimated" };
  }
  const isWhole = (outcome === "completed" || ended) && reported?.out.total !== undefined;
  if (isWhole || !delivered || !isText) {
    if (reported?.images) return { usage: pictured(exchange, reported, reported.images), source: "reported" };
    if (isTold) return { usage: reported, source: isWhole || isEnd(exchange) ? "reported" : "partial" };
    // A provider that tells nothing, or nothing that can be read, has worked all the same.
    if (outcome === "completed" && operation.generates && isUntold(exchange, reading))
      return {
        usage: tiered({ ...reported, ...brought(exchange, reading, tokensIn) }, exchange, reading),
        source: "estimated",
      };
    return { usage: reported, source: "none" };
  }
  return brokenOff(exchange, reading, outcome === "completed" ? "estimate" : cut, tokensIn);
}

/** What counts of an exchange that ends with what has come: a text, or usage that was told. */
function brokenOff(exchange: DoneExchange, reading: Reading, cut: Cut, tokensIn: () => number | undefined): Settlement {
  const reported = reportedIn(exchange);
  const { delivered } = reading;
  const source = reported && counts(reported) ? "partial" : "estimated";
  if (!delivered) return { usage: reported, source: reported ? "partial" : "none" };
  if (cut === "observed" || cut === "absorb") return { usage: reported ?? NOTHING, source: uncounted(cut) };
  return { usage: tiered(estimated(reported, delivered, tokensIn), exchange, reading), source };
}

const uncounted = (cut: Cut) => (cut === "absorb" ? "absorbed" : "observed");

/** What the provider has told, if that can be. */
const reportedIn = ({ usage }: DoneExchange): Usage | undefined => (usage && isCredible(usage) ? usage : undefined);

/** Whether it is a WebSocket, on which usage is told as often as its client asks for something. */
const isSocket = ({ protocol, operation }: SendExchange): boolean =>
  protocol.socket !== undefined && operation.generates && operation.body === "none";

/** An estimate in the tier that the frames told, or else in the dearer one that was asked for. */
function tiered(usage: Usage, exchange: DoneExchange, { tier: first, last, before }: Reading): Usage {
  if (usage.tier !== undefined && usage.tier !== "auto") return usage;
  const told = [last, before].map((frame) => frame && readable(() => tierIn(frame, spoken(exchange))));
  const attempt = exchange.attempt ?? exchange.attempts.at(-1);
  const asked = () => (attempt && !exchange.form ? askedTier(attempt, exchange.time) : undefined);
  const tier = told.find((each) => each !== undefined) ?? first ?? asked();
  return tier === undefined ? usage : { ...usage, tier };
}

/** What is read of a frame; undefined where that is no JSON, which was told when it came. */
function readable<Result>(read: () => Result): Result | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

/** Whether a stream had come to its end that its client has left: at the last frame, or with its usage behind that. */
const hasEnded = (exchange: DoneExchange, { ended, last, before }: Reading): boolean =>
  ended === true || [last, before].some((frame) => frame && spoken(exchange).ending(frame) === "complete");

/** Whether no more of an answer will come that tells usage: what an error tells is all of it. */
const isEnd = ({ outcome, attempts }: DoneExchange): boolean =>
  outcome === "completed" || (attempts.at(-1)?.status ?? 0) >= 400;

/** Whether an answer came, and nobody will tell what it has cost: one that is made later tells whoever fetches it. */
function isUntold({ protocol, body, usage }: DoneExchange, { delivered, whole }: Reading): boolean {
  if ((!delivered && !whole) || usage?.providerCost !== undefined) return false;
  const { later } = protocol.output ?? {};
  const kind = later === undefined ? undefined : body.member(later)?.kind;
  return kind === undefined || kind === "false" || kind === "null";
}

/** Tokens of which nobody has more in one exchange: a provider that tells more is not believed. */
const MOST_TOKENS = 1e9;

const isCredible = ({ in: input, out }: Usage): boolean =>
  (input.total ?? 0) <= MOST_TOKENS && (out.total ?? 0) <= MOST_TOKENS;

/** Bytes of a whole answer around its text, about. */
const ENVELOPE = 300;

/** What an answer whose provider tells nothing has cost, by what of it came: pictures, or bytes of text. */
function brought(
  exchange: DoneExchange,
  { delivered, whole, pictured: isPictured }: Reading,
  tokensIn: () => number | undefined,
): Usage {
  const { body, operation, attempt, protocol } = exchange;
  const input = { total: tokensIn() ?? tokensOfBytes(body.length) };
  const words = (attempt?.protocol ?? protocol).pictures;
  // Partial ones of a stream are all of one picture.
  const pictures = isPictured ? 1 : (whole?.pictures ?? 0);
  if (words && pictures > 0) {
    const total = pictures * words.tokens;
    return pictured(exchange, { in: input, out: { total, image: total }, raw: undefined }, { count: pictures });
  }
  const text = delivered?.tokens ?? Math.ceil(Math.max(0, (whole?.bytes ?? 0) - ENVELOPE) / BYTES_PER_TOKEN);
  return { in: input, out: { total: operation.task === "generate" ? text : 0 }, raw: undefined };
}

/** Ends that are no fault of the provider, which may have worked all the same. */
const LEFT: ReadonlySet<DoneExchange["outcome"]> = new Set(["aborted", "interrupted", "rejected"]);

/** Whether a request was given up that a provider had, and of which it has told no failure: it costs what it asked, at least. */
function isLeft({ outcome, operation, body, attempts }: DoneExchange): boolean {
  if (!LEFT.has(outcome) || !operation.generates || body.length === 0) return false;
  const { sent, status = 200, error } = attempts.at(-1) ?? { sent: false };
  return sent && status < 300 && error?.code.startsWith("upstream_") !== true;
}

/** With what the request says of its pictures, where the answer does not. What stands in a form is not read. */
function pictured(
  { operation, attempt, protocol, body, form }: DoneExchange,
  usage: Usage,
  told: NonNullable<Usage["images"]>,
): Usage {
  const words = (attempt?.protocol ?? protocol).pictures;
  if (!words) return usage;
  const asked = (name: "size" | "quality") => {
    if (told[name] !== undefined) return {};
    if (form) return { [name]: "unread" };
    const value = body.member(words[name]) && body.value(words[name]);
    return typeof value === "string" ? { [name]: value } : {};
  };
  const edited = words.edits.includes(operation.name) ? { edited: true as const } : {};
  return { ...usage, images: { ...told, ...asked("size"), ...asked("quality"), ...edited } };
}

const NOTHING: Usage = { in: { total: 0 }, out: { total: 0 }, raw: undefined };

/** What a stream that tells too little has cost, about. */
function estimated(reported: Usage | undefined, delivered: Delivered, tokensIn: () => number | undefined): Usage {
  const input = reported?.in.total ?? tokensIn();
  return {
    ...reported,
    in: { ...reported?.in, ...(input === undefined ? {} : { total: input }) },
    out: { ...reported?.out, total: Math.max(reported?.out.total ?? 0, delivered.tokens) },
    raw: reported?.raw,
  };
}

/** The protocol of the frames: that of the provider that answers. */
const spoken = ({ attempt, protocol }: Pick<ResponseExchange, "attempt" | "protocol">) => attempt?.protocol ?? protocol;

const QUOTE = 0x22;

/** Frames of a stream in which its tier is looked for: each that tells it would be parsed for that. */
const FIRST = 3;

/** Parses only frames that hold usage, and the first ones for the tier. What cannot be read is told in the log, and the client's stream goes on. */
function streamed(exchange: ResponseExchange, reading: Reading, onTheWay: () => void): Stage {
  const protocol = spoken(exchange);
  const { generates, task } = exchange.operation;
  const isText = generates && task === "generate";
  const delivered = generates ? new Delivered(protocol, exchange.attempt?.target.model) : undefined;
  const marks = protocol.pictures?.marks;
  if (delivered) {
    reading.delivered = delivered;
    exchange.progress = delivered;
  }
  const see = (frame: Frame): void => {
    if (exchange.aborted && protocol.ending(frame) === "complete") reading.ended = true;
    reading.before = reading.last;
    reading.last = frame;
    delivered?.see(frame);
    reading.looked = (reading.looked ?? 0) + 1;
    if (generates && reading.looked <= FIRST) reading.tier ??= readable(() => tierIn(frame, protocol));
    if (marks?.some((mark) => frame.mayContain(mark, QUOTE))) reading.pictured = true;
    if (!protocol.holdsUsage(frame)) return;
    const json = frame.json();
    const late = protocol.kept?.late.id(json);
    if (!generates && late === undefined) return;
    const usage = protocol.usage(json, exchange.usage);
    if (!usage) return;
    exchange.usage = usage;
    reading.late = late;
  };
  return (frame) => {
    try {
      see(frame);
      if (isText && (reading.looked ?? 0) % LOOKS === 0) onTheWay();
    } catch (thrown) {
      exchange.unread ??= JsonUsage.faultOf(thrown);
    }
  };
}

function whole(exchange: ResponseExchange, reading: Reading): Stage {
  const usage = new JsonUsage([spoken(exchange)]);
  reading.whole = usage;
  return ({ kind, bytes }) => {
    if (kind !== "end") {
      usage.push(bytes);
      return;
    }
    const found = usage.end();
    exchange.unread = usage.fault;
    // What is kept has told its usage when it was made, unless it was made later.
    if (!exchange.operation.generates && usage.late === undefined) return;
    exchange.usage = found;
    reading.late = usage.late;
  };
}

/** Of an error, that tells usage only where its provider has worked on the request, and bills that. */
function failed(exchange: ResponseExchange): Stage {
  const usage = new JsonUsage([spoken(exchange)]);
  return ({ kind, bytes }) => {
    if (kind !== "end") {
      usage.push(bytes);
      return;
    }
    const found = usage.end();
    if (found && isWork(found)) exchange.usage = found;
  };
}

/** Bytes of a request for each of its tokens, about. */
const BYTES_PER_TOKEN = 4;
const tokensOfBytes = (bytes = 0): number => Math.ceil(bytes / BYTES_PER_TOKEN);

/** The entry of an exchange of which nothing more is heard: as if nothing had been answered. */
function begun(exchange: SendExchange, attempt: Attempt, cut: Cut, prices: Marketplace): LedgerEntry {
  const { target, body } = attempt;
  const estimates = cut === "estimate" || cut === "drain";
  const tier = exchange.form ? undefined : askedTier(attempt, exchange.time);
  const usage = estimates
    ? { in: { total: tokensOfBytes(body.length) }, out: {}, raw: undefined, ...(tier && { tier }) }
    : NOTHING;
  const known = exchange.operation.generates && body.length > 0;
  const entry: LedgerEntry = {
    id: exchange.id,
    time: exchange.time,
    key: exchange.caller?.id ?? "",
    model: target.serves ?? exchange.model?.id ?? "",
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
  tellHolder(entry, exchange);
  if (known) Object.assign(entry, { usage }, priced(attempt, exchange.time, usage, prices));
  return entry;
}

/** What group and tags the key has now, and where it asks from. */
function tellHolder(entry: LedgerEntry, { caller, address }: Pick<DoneExchange, "caller" | "address">): void {
  if (caller?.group !== undefined) entry.group = caller.group;
  if (caller?.tags) entry.tags = caller.tags;
  if (address !== "") entry.address = address;
}

/** Statuses from 400 to 499 of a provider that gave up on a request, and may have worked on it by then. */
const GIVEN_UP: readonly number[] = [408, 499];

/** Whether an attempt is known to cost nothing: no provider heard of it, or one refused to do it. */
const isFree = ({ sent, status = 0 }: Attempt): boolean =>
  !sent || (status >= 400 && status < 500 && !GIVEN_UP.includes(status));

function entry(
  exchange: DoneExchange,
  { usage, source }: Settlement,
  late: string | undefined,
  { marketplace, redactor }: { marketplace: Marketplace; redactor: Redactor },
): LedgerEntry {
  const { attempts, model, firstByte, outcome, answerer } = exchange;
  const last = attempts.at(-1);
  const free = attempts.every(isFree) && !(usage && counts(usage));
  const entry: LedgerEntry = {
    id: exchange.id,
    time: exchange.time,
    key: exchange.caller?.id ?? "",
    model: last?.target.serves ?? model?.id ?? "",
    target: last ? Marketplace.nameOf(last.target) : answerer ? `answered by ${answerer.name}` : "",
    protocol: exchange.protocol.name,
    operation: exchange.operation.name,
    status: exchange.status,
    outcome,
    streaming: exchange.streaming,
    attempts: attempts.map((attempt) => tried(attempt, exchange, redactor)),
    duration: Math.round(exchange.elapsed),
    source: free ? "free" : source,
  };
  tellHolder(entry, exchange);
  if (firstByte !== undefined) entry.firstByte = Math.round(firstByte);
  if (exchange.received !== undefined) entry.bytes = { up: exchange.received, down: exchange.written };
  if (usage) entry.usage = usage;
  if (usage && late !== undefined) entry.once = `${last?.target.provider.name} ${late}`;
  if (free || source === "absorbed") entry.cost = 0;
  else if (usage && last) Object.assign(entry, priced(last, exchange.time, usage, marketplace));
  return entry;
}

type Writable<Type> = { -readonly [Name in keyof Type]: Type[Name] };

/** What limits count of an entry. What is unpriced costs them what the provider says, or else what of it has a price. */
function chargeOf(entry: LedgerEntry, { attempts, time }: DoneExchange): NonNullable<DoneExchange["charge"]> {
  const { usage, once, source, cost: priced } = entry;
  const charge: Writable<NonNullable<DoneExchange["charge"]>> = {
    tokens: usage ? tokensOf(usage) : 0,
    cost: priced ?? (usage ? floorOf(usage, attempts.at(-1)?.target, time) : 0),
    estimated: source === "estimated" || source === "partial",
  };
  if (usage) charge.usage = usage;
  if (priced !== undefined) charge.priced = priced;
  if (once !== undefined) charge.once = once;
  return charge;
}
