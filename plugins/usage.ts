import {
  type AccessExchange,
  type Answer,
  type Attempt,
  type DoneExchange,
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
import { Ledger, type LedgerEntry } from "model-gateway/store";
import { inject, injectable } from "tsyringe";
import { z } from "zod";
import { chargeOf, finalEntry, initialEntry } from "./usage/entry.ts";
import { addReasons } from "./usage/reasons.ts";
import { REQUEST_RECORD } from "./usage/request-facts.ts";
import { SentFigures } from "./usage/requested.ts";
import { CUT_POLICIES, settle } from "./usage/settlement.ts";
import { UnseenReasoning } from "./usage/unseen-reasoning.ts";
import {
  errorStage,
  type RequestFigures,
  readUnseen,
  streamStage,
  type UsageReading,
  wholeStage,
} from "./usage/usage-reading.ts";

/** Milliseconds between interim entries of a stream: the most that is missing if the gateway is killed. */
const INTERIM_INTERVAL = 5000;
const MINUTE = 60_000;
/** Rows a minute of requests that were refused because of their key: more would let anyone fill the disk. */
const UNKEYED_PER_MINUTE = 100;

/** Members of an entry that only the operator sees. */
const OPERATORS_MEMBERS: ReadonlySet<string> = new Set(["key", "group", "tags", "once", "address", "assumedCost"]);

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
  private readonly unseen = new UnseenReasoning();
  private readonly unkeyed = { since: Number.NEGATIVE_INFINITY, rows: 0 };

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
    if (isSocket(exchange)) {
      const onUsage = (running: DoneExchange) => this.writeInterim(running, reading);
      exchange.onUsage = onUsage;
    }
  }

  response(exchange: ResponseExchange, head: Head): Stage | undefined {
    const { generates, storedResponseId } = exchange.operation;
    if (!generates && storedResponseId === undefined) return undefined;
    if (head.status >= 400 && !head.framing) return generates ? errorStage(exchange) : undefined;
    if (head.status >= 300) return undefined;
    const reading = this.reading(exchange);
    const { attempt, answerer } = exchange;
    if (generates && attempt?.releasesBody) reading.asked = new SentFigures(exchange.asEnded, this.translations).read();
    const { cut } = this.options;
    // A plugin's answer costs nothing, and may have no end but the client's.
    if (head.framing && cut !== "absorb" && !answerer) exchange.drain ||= cut === "drain" || "end";
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
    this.ledger.begin({
      ...this.entry(exchange, reading, this.figuresOf(exchange, reading), true),
      outcome: "interrupted",
    });
  }

  /** @param isRunning whether the exchange goes on: as if it broke off now */
  private entry(exchange: DoneExchange, reading: UsageReading, asked: RequestFigures, isRunning: boolean): LedgerEntry {
    const { marketplace, redactor, unseen } = this;
    const settled = settle({ exchange, reading, cut: this.options.cut, asked, unseen, isRunning });
    return finalEntry(exchange, settled, isRunning ? undefined : (reading.lateId ?? exchange.usageName), {
      marketplace,
      redactor,
    });
  }

  private figuresOf(exchange: DoneExchange, { asked }: UsageReading): RequestFigures {
    return asked ?? new SentFigures(exchange, this.translations);
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
    const shown = Object.fromEntries(Object.entries(found).filter(([name]) => !OPERATORS_MEMBERS.has(name)));
    // The credential used at a provider is visible to the operator only.
    const attempts = found.attempts.map(({ credential: _, ...attempt }) => attempt);
    return { status: 200, body: JSON.stringify({ object: "request", ...shown, attempts }) };
  }

  done(exchange: DoneExchange): void {
    if (exchange.dryRun) return;
    if (exchange.error?.isUnkeyed && !this.takeUnkeyed()) return;
    exchange.onUsage = undefined;
    const reading = this.reading(exchange);
    readUnseen(exchange, reading);
    const asked = this.figuresOf(exchange, reading);
    const written = this.entry(exchange, reading, asked, false);
    if (written.source === "reported" && exchange.outcome === "completed") this.unseen.learn(exchange, reading, asked);
    addReasons(written, exchange, this.redactor);
    exchange.charge = chargeOf(written);
    this.ledger.append(written);
  }

  /** Reports whether another request that was refused because of its key may have a row, and counts it. */
  private takeUnkeyed(): boolean {
    const { unkeyed } = this;
    const now = performance.now();
    if (now - unkeyed.since >= MINUTE) Object.assign(unkeyed, { since: now, rows: 0 });
    return ++unkeyed.rows <= UNKEYED_PER_MINUTE;
  }
}

/** Reports whether an exchange is a WebSocket, on which usage is reported for each response. */
const isSocket = ({ protocol, operation }: SendExchange): boolean =>
  protocol.socket !== undefined && operation.generates && operation.body === "none";
