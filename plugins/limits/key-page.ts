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
    limit: USD.nullable().describe("The hard budget with the least money left, in USD."),
    limit_remaining: USD.nullable().describe(
      "What is left of it now, after the spending and the reservations of running requests.",
    ),
    limit_reset: MOMENT,
    limits: z.array(LEVEL),
  }),
});

/** Builds the response of `GET /v1/key` about a caller's own key. */
export class KeyPage {
  private cached: { at: number; spent: Promise<ReadonlyMap<string, number>> } | undefined;

  constructor(
    private readonly limiter: Limiter,
    private readonly levels: Levels,
    private readonly ledger: Ledger,
  ) {}

  /** Returns the response. @throws GatewayError a 503 while the ledger is unavailable */
  async answer(caller: Caller): Promise<Answer> {
    const { id, name, group, models, expires } = caller;
    const statuses = await this.limiter.statuses(this.levels.forRequest(caller));
    const spent = (await this.spent()).get(id) ?? 0;
    const nearest = statuses
      .flatMap(({ budgets }) => budgets.filter(({ soft }) => !soft))
      .sort((one, other) => one.remaining - other.remaining)[0];
    const data = {
      id,
      label: name,
      group: group ?? null,
      models: models ?? null,
      expires_at: momentOf(expires),
      usage: usd(spent),
      limit: nearest ? usd(nearest.limit) : null,
      limit_remaining: nearest ? usd(nearest.remaining) : null,
      limit_reset: momentOf(nearest?.resets),
      limits: statuses.map(limitStatus),
    };
    return { body: `${JSON.stringify({ data })}\n` };
  }

  /** Returns nano-dollars by key since the ledger began; queried at most every few seconds, for all callers together. */
  private spent(): Promise<ReadonlyMap<string, number>> {
    const now = performance.now();
    if (this.cached && now - this.cached.at < CACHE_MS) return this.cached.spent;
    const spent = this.ledger
      .sums({ by: ["key"] })
      .then((sums) => new Map(sums.map(({ group: [key = ""], cost }) => [key, cost])))
      .catch((cause: unknown) => {
        this.cached = undefined;
        throw Ledger.unavailableError(cause);
      });
    this.cached = { at: now, spent };
    return spent;
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
