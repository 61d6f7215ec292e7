import type { Calendar } from "../../core/calendar.ts";
import type { Budget } from "../../core/limit-kinds.ts";
import type { LimitLevel } from "../../core/limits.ts";
import {
  type BudgetState,
  budgetExcess,
  budgetStatus,
  concurrencyExcess,
  isRepeated,
  type MutableGrant,
  type RateState,
  rateLimitState,
  rpmExcess,
  tighterLimit,
  tokensToReserve,
  tpmExcess,
  warnIfNearlySpent,
} from "../limit-results.ts";
import type { Excess, Grant, LimitStatus, Reservation } from "../limiter.ts";

/** Reads a script's reply value by value. */
export class ReplyReader {
  private at = 0;

  constructor(private readonly values: readonly unknown[]) {}

  get ended(): boolean {
    return this.at >= this.values.length;
  }

  text(): string {
    return String(this.values[this.at++] ?? "");
  }

  number(): number {
    return Number(this.values[this.at++] ?? 0);
  }
}

/** Returns the state of a level's sums, in the order of its budgets; two budgets of one period share it. */
function readBudgetStates(level: LimitLevel, reader: ReplyReader, calendar: Calendar, now: number): BudgetState[] {
  const { budgets = [] } = level.limits;
  const states: BudgetState[] = [];
  for (const [i, { per }] of budgets.entries()) {
    const known = isRepeated(budgets, i) ? states[budgets.findIndex((budget) => budget.per === per)] : undefined;
    const { end } = calendar.span(per, now);
    states.push(known ?? { spent: reader.number(), pending: reader.number(), end });
  }
  return states;
}

const readRateState = (reader: ReplyReader): RateState => ({
  sum: reader.number(),
  reset: Math.max(0, reader.number()),
});

/** Called with the current spent and pending amounts of a sum. */
export type OnSum = (level: LimitLevel, budget: Budget, state: BudgetState) => void;

/**
 * Parses a grant, from the reply of `reserve` after its first two values.
 * @param onSum called for each sum of each level
 */
export function parseGrant(
  reader: ReplyReader,
  { levels, maximum }: Reservation,
  calendar: Calendar,
  now: number,
  onSum: OnSum,
): Grant {
  const grant: MutableGrant = {};
  for (const level of levels) {
    const { rpm = 0, tpm = 0, budgets = [] } = level.limits;
    const [requests, tokens] = [readRateState(reader), readRateState(reader)];
    if (rpm > 0) grant.requests = tighterLimit(grant.requests, rateLimitState(requests, rpm));
    if (tpm > 0) grant.tokens = tighterLimit(grant.tokens, rateLimitState(tokens, tpm));
    for (const [i, state] of readBudgetStates(level, reader, calendar, now).entries()) {
      const budget = budgets[i] as Budget;
      warnIfNearlySpent(grant, level, budget, state.spent);
      if (!isRepeated(budgets, i)) onSum(level, budget, { ...state, pending: state.pending + maximum.cost });
    }
  }
  return grant;
}

/**
 * Parses the exceeded limit, from the reply of `reserve` after its first value.
 * @param onSum called for the sum of an exceeded budget
 */
export function parseExcess(
  reader: ReplyReader,
  { levels, maximum }: Reservation,
  calendar: Calendar,
  now: number,
  onSum: OnSum,
): Excess {
  const level = levels[reader.number()] as LimitLevel;
  const { rpm = 0, tpm = 0, concurrency = 0, budgets = [] } = level.limits;
  const limit = reader.text();
  if (limit === "concurrency") return concurrencyExcess(level, concurrency);
  if (limit === "rpm") return rpmExcess(level, rpm, reader.number());
  if (limit === "tpm") {
    const [sum, wait] = [reader.number(), reader.number()];
    return tpmExcess(level, tpm, tpm - sum, tokensToReserve(maximum, tpm), wait);
  }
  const budget = budgets[reader.number()] as Budget;
  const { end } = calendar.span(budget.per, now);
  const state = { spent: reader.number(), pending: reader.number(), end };
  onSum(level, budget, state);
  return budgetExcess(level, budget, state, maximum.cost, now);
}

/** Parses the state of levels, from the reply of `statuses` after its first two values. */
export function parseStatuses(
  reader: ReplyReader,
  levels: readonly LimitLevel[],
  calendar: Calendar,
  now: number,
): LimitStatus[] {
  return levels.map((level): LimitStatus => {
    const { kind, name, limits } = level;
    const { rpm = 0, tpm = 0, concurrency = 0, budgets = [] } = limits;
    const [requests, tokens] = [readRateState(reader), readRateState(reader)];
    const states = readBudgetStates(level, reader, calendar, now);
    const running = reader.number();
    return {
      kind,
      name,
      ...(rpm > 0 && { requests: rateLimitState(requests, rpm) }),
      ...(tpm > 0 && { tokens: rateLimitState(tokens, tpm) }),
      ...(concurrency > 0 && { concurrency: { limit: concurrency, remaining: Math.max(0, concurrency - running) } }),
      budgets: budgets.map((budget, i) => budgetStatus(budget, states[i] as BudgetState)),
    };
  });
}
