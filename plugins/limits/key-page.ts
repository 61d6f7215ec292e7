import type { Answer, Caller } from "model-gateway";
import { Ledger, type Levels, type Limiter, type LimitStatus } from "model-gateway/store";
import { z } from "zod";

/** Milliseconds for which sums of the ledger are cached. */
const CACHE_MS = 5000;

const MOMENT = z.iso.datetime().nullable();
const USD = z.number();
const RATE = z.strictObject({ limit: z.number(), remaining: z.number(), reset_seconds: z.number() }).optional();
const LEVEL = z.strictObject({
  of: z.string().describe("The kind of owner of these limits: key, group, model, provider or all."),
  name: z.string().optional(),
  requests_per_minute: RATE,
  tokens_per_minute: RATE,
  concurrency: z.strictObject({ limit: z.number(), remaining: z.number() }).optional(),
  budgets: z
    .array(
      z.strictObject({
        ...{ limit: USD, per: z.enum(["hour", "day", "week", "month", "total"]) },
        soft: z.boolean().describe("True: the budget only warns, and refuses no request."),
        ...{ spent: USD, reserved: USD, remaining: USD, resets_at: MOMENT },
      }),
    )
    .optional(),
});

/** The response body of `GET /v1/key`. */
export const KEY_STATUS = z.strictObject({
  data: z.strictObject({
    id: z.string(),
    label: z.string(),
    group: z.string().nullable(),
    models: z.array(z.string()).nullable().describe("Models that the key may use; null: all."),
    expires_at: MOMENT,
    usage: USD.describe(
      "USD spent since the ledger began, according to the ledger: it lags a few seconds behind the budgets, and more while rows wait for the ledger's store.",
    ),
    usage_daily: USD.describe("The same since the day began, in `timezone`."),
    usage_weekly: USD.describe("The same since Monday."),
    usage_monthly: USD.describe("The same since the month began."),
    timezone: z.string().describe("The zone of the gateway's days, also of its budgets, like `Europe/Berlin`."),
    limit: USD.nullable().describe("The hard budget with the least money left, in USD."),
    limit_remaining: USD.nullable().describe(
      "What is left of it now, after the spending and the reservations of running requests.",
    ),
    limit_reset: MOMENT,
    limits: z.array(LEVEL),
  }),
});

/** Nano-dollars by key: since the ledger began, and in the current period of each kind. */
type Spent = Readonly<Record<"total" | "day" | "week" | "month", ReadonlyMap<string, number>>>;

/** Builds the response of `GET /v1/key` about a caller's own key. */
export class KeyPage {
  /** `day` is the start of the day: all longer periods begin with one. */
  private cached: { at: number; day: number; spent: Promise<Spent> } | undefined;

  constructor(
    private readonly limiter: Limiter,
    private readonly levels: Levels,
    private readonly ledger: Ledger,
  ) {}

  /** Returns the response. @throws GatewayError a 503 while the ledger is unavailable */
  async answer(caller: Caller): Promise<Answer> {
    const { id, name, group, models, expires } = caller;
    const statuses = await this.limiter.statuses(this.levels.forRequest(caller));
    const spent = await this.spent();
    const spentIn = (period: keyof Spent) => usd(spent[period].get(id) ?? 0);
    const nearest = statuses
      .flatMap(({ budgets }) => budgets.filter(({ soft }) => !soft))
      .sort((one, other) => one.remaining - other.remaining)[0];
    const data = {
      id,
      label: name,
      group: group ?? null,
      models: models ?? null,
      expires_at: momentOf(expires),
      usage: spentIn("total"),
      usage_daily: spentIn("day"),
      usage_weekly: spentIn("week"),
      usage_monthly: spentIn("month"),
      timezone: this.levels.calendar.zone,
      limit: nearest ? usd(nearest.limit) : null,
      limit_remaining: nearest ? usd(nearest.remaining) : null,
      limit_reset: momentOf(nearest?.resets),
      limits: statuses.map(limitStatus),
    };
    return { body: `${JSON.stringify({ data })}\n` };
  }

  /** Returns what was spent; queried at most every few seconds, for all callers together. */
  private spent(): Promise<Spent> {
    const [at, now] = [performance.now(), Date.now()];
    const day = this.startOf("day", now);
    if (this.cached && at - this.cached.at < CACHE_MS && this.cached.day === day) return this.cached.spent;
    const spent = this.query(now).catch((cause: unknown) => {
      this.cached = undefined;
      throw Ledger.unavailableError(cause);
    });
    this.cached = { at, day, spent };
    return spent;
  }

  private async query(now: number): Promise<Spent> {
    const [total, day, week, month] = await Promise.all([
      this.spentSince(0),
      this.spentSince(this.startOf("day", now)),
      this.spentSince(this.startOf("week", now)),
      this.spentSince(this.startOf("month", now)),
    ]);
    return { total, day, week, month };
  }

  private async spentSince(since: number): Promise<ReadonlyMap<string, number>> {
    const sums = await this.ledger.sums({ since, by: ["key"] });
    return new Map(sums.map(({ group: [key = ""], cost }) => [key, cost]));
  }

  /** Returns the start of the period that has this moment; both in Unix milliseconds. */
  private startOf(per: Exclude<keyof Spent, "total">, now: number): number {
    return this.levels.calendar.span(per, now).start;
  }
}

/** Converts nano-dollars to USD. */
const usd = (nano: number): number => nano / 1e9;

const momentOf = (time: number | undefined): string | null =>
  time === undefined ? null : new Date(time).toISOString();

const rate = (of: LimitStatus["requests"]) =>
  of && { limit: of.limit, remaining: of.remaining, reset_seconds: Math.ceil(of.reset / 1000) };

function limitStatus({ kind, name, requests, tokens, concurrency, budgets }: LimitStatus) {
  return {
    of: kind,
    ...(name !== "" && { name }),
    ...(requests && { requests_per_minute: rate(requests) }),
    ...(tokens && { tokens_per_minute: rate(tokens) }),
    ...(concurrency && { concurrency: { limit: concurrency.limit, remaining: concurrency.remaining } }),
    ...(budgets.length > 0 && {
      budgets: budgets.map(({ limit, per, soft, spent, reserved, remaining, resets }) => ({
        limit: usd(limit),
        per,
        soft,
        spent: usd(spent),
        reserved: usd(reserved),
        remaining: usd(remaining),
        resets_at: momentOf(resets),
      })),
    }),
  };
}
