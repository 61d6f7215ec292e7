import type { Period } from "../core/calendar.ts";
import { type GatewayError, storeUnavailable } from "../core/errors.ts";
import type { Budget } from "../core/limit-kinds.ts";
import { eachPeriod, formatDollars, limitOwner } from "../core/limit-messages.ts";
import type { LimitLevel } from "../core/limits.ts";
import { plural } from "../core/plural.ts";
import type { RateLimitState } from "../core/protocol.ts";
import type { BudgetMark } from "./budget-marks.ts";
import type { BudgetStatus, Excess, Grant, Reservation, Spending } from "./limiter.ts";

// Results common to all limiters, regardless of where they count.

/** The spent share of a budget from which on it is reported. */
export const NEARLY_SPENT = 0.8;
const SHARES = [1, NEARLY_SPENT];
const NONE: readonly BudgetMark[] = [];

/** Money of one scope in the current period, in nano-dollars. */
export interface BudgetState {
  readonly spent: number;
  /** The worst-case cost of running exchanges. */
  readonly pending: number;
  /** Unix milliseconds; `Infinity`: it never ends. */
  readonly end: number;
}

/** Sums of a minute. */
export interface RateState {
  readonly sum: number;
  /** Milliseconds until all of it has expired. */
  readonly reset: number;
}

/** Returns the tokens to reserve for a limit: never more than the limit itself. */
export function tokensToReserve({ tokens }: Spending, tpm: number): number {
  return Math.min(tokens, tpm);
}

/** Reports whether an earlier budget has the same period: both are limits on one sum. */
export function isRepeated(budgets: readonly Budget[], at: number): boolean {
  for (let i = 0; i < at; i++) if (budgets[i]?.per === budgets[at]?.per) return true;
  return false;
}

/**
 * Returns the refusal of an exhausted budget.
 * @param requested nano-dollars
 * @param now Unix milliseconds
 * @param allowed the part of the budget available to this process
 */
export function budgetExcess(
  level: LimitLevel,
  { nano, per }: Budget,
  { spent, pending, end }: BudgetState,
  requested: number,
  now: number,
  allowed = nano,
): Excess {
  const remaining = Math.max(0, allowed - spent - pending);
  // Running exchanges will cost less than the worst case, or end: then there is room again.
  const soon = spent + requested <= allowed ? 1 : undefined;
  const later = requested <= nano && Number.isFinite(end) ? (end - now) / 1000 : undefined;
  return {
    limit: "budget",
    level,
    allowed: nano,
    remaining,
    requested,
    per,
    spent,
    ...resetsField(end),
    ...retryAfterField(soon ?? later),
  };
}

/** Returns the refusal where as many requests run as are allowed. */
export const concurrencyExcess = (level: LimitLevel, allowed: number): Excess => ({
  ...{ limit: "concurrency", level, allowed, remaining: 0, requested: 1 },
  retryAfter: 1,
});

/** Returns the refusal of a request over `rpm`. @param wait milliseconds until there is room; undefined: there never is */
export const rpmExcess = (level: LimitLevel, allowed: number, wait: number | undefined): Excess => ({
  ...{ limit: "rpm", level, allowed, remaining: 0, requested: 1 },
  ...retryAfterField(wait === undefined ? undefined : wait / 1000),
});

/** Returns the refusal of a request over `tpm`. @param wait as of `rpmExcess` */
export const tpmExcess = (
  level: LimitLevel,
  allowed: number,
  remaining: number,
  requested: number,
  wait: number | undefined,
): Excess => ({
  ...{ limit: "tpm", level, allowed, remaining: Math.max(0, remaining), requested },
  ...retryAfterField(wait === undefined ? undefined : wait / 1000),
});

/** @param allowed the part of the budget available to this process */
export function budgetStatus(
  { nano, per, soft }: Budget,
  { spent, pending, end }: BudgetState,
  allowed = nano,
): BudgetStatus {
  const remaining = Math.max(0, allowed - spent - pending);
  return { limit: nano, per, soft, spent, reserved: pending, remaining, ...resetsField(end) };
}

/** @param allowed the part of the limit available to this process */
export const rateLimitState = ({ sum, reset }: RateState, limit: number, allowed = limit): RateLimitState => ({
  limit,
  remaining: Math.max(0, allowed - sum),
  reset,
});

/** Returns the limit that leaves less. */
export const tighterLimit = (known: RateLimitState | undefined, other: RateLimitState): RateLimitState =>
  known && known.remaining <= other.remaining ? known : other;

/** A grant in the making. */
export type MutableGrant = { -readonly [Name in keyof Grant]: Grant[Name] };

/** Adds to a grant the warning for a soft budget that is nearly spent. */
export function warnIfNearlySpent(grant: MutableGrant, level: LimitLevel, budget: Budget, spent: number): void {
  const { nano, per, soft } = budget;
  if (!soft || spent < nano * NEARLY_SPENT) return;
  grant.warnings = [...(grant.warnings ?? []), spentMessage(level, nano, per, spent)];
}

/**
 * Returns the highest share of each budget that a sum has reached since this process looked at it last.
 * @param before the highest sum seen before; 0: none, so that what other processes have spent is reported too
 */
export function newBudgetMarks(level: LimitLevel, per: Period, spent: number, before: number): readonly BudgetMark[] {
  const { budgets = [] } = level.limits;
  if (spent <= before) return NONE;
  let marks: BudgetMark[] | undefined;
  for (const { nano, soft, per: budgetPeriod } of budgets) {
    // Nearly always none is: this runs for each request.
    if (budgetPeriod !== per || spent < nano * NEARLY_SPENT) continue;
    const share = SHARES.find((share) => spent >= nano * share && before < nano * share);
    if (!share) continue;
    marks ??= [];
    marks.push({ ...limitedScope(level), per, limit: nano, spent, soft, share, refused: false });
  }
  return marks ?? NONE;
}

/** Returns the message that is logged once when a soft budget is nearly spent, and once when it is spent. */
export const markMessage = (mark: BudgetMark): string => spentMessage(mark, mark.limit, mark.per, mark.spent);

/**
 * Returns the mark of a refusal; undefined if most of the budget is not spent: the request was too large for it, or running
 * requests have reserved the rest, and will cost less or be marked when they end.
 */
export function refusalMark({ limit, level, allowed, requested, per, spent = 0 }: Excess): BudgetMark | undefined {
  if (limit !== "budget" || per === undefined) return undefined;
  if (spent < allowed * NEARLY_SPENT || spent + requested <= allowed) return undefined;
  return { ...limitedScope(level), per, limit: allowed, spent, soft: false, share: 1, refused: true };
}

type LimitedScope = Pick<LimitLevel, "kind" | "name" | "label">;

/** Returns what a level's limits apply to. */
const limitedScope = ({ kind, name, label }: LimitedScope): LimitedScope => ({
  ...{ kind, name },
  ...(label !== undefined && { label }),
});

/** The error while spending is unknown: a budget that may be exhausted is not spent. */
export const spendUnknownError = (cause?: unknown): GatewayError =>
  storeUnavailable("ledger", "What has been spent so far is not known, as the gateway's ledger cannot answer.", cause);

/** Logged once while the spending of soft budgets is unknown. */
export const SOFT_BUDGETS_UNKNOWN =
  "What soft budgets have spent is not known, as the ledger cannot answer: they let through, and tell nothing, until it is back.";

/**
 * Removes the soft budgets with unknown spending from a reservation: they refuse nothing.
 * @param lacks whether a level's sum of a period is unknown
 * @returns undefined if nothing was removed, or a hard budget has such a sum too
 */
export function withoutSoftBudgets(
  reservation: Reservation,
  lacks: (level: LimitLevel, per: Period) => boolean,
): Reservation | undefined {
  const unknown = reservation.levels.flatMap((level) =>
    (level.limits.budgets ?? []).filter(({ per }) => lacks(level, per)),
  );
  if (unknown.length === 0 || unknown.some(({ soft }) => !soft)) return undefined;
  const levels = reservation.levels.map((level) => {
    const { budgets = [] } = level.limits;
    const known = budgets.filter((budget) => !unknown.includes(budget));
    return known.length === budgets.length ? level : { ...level, limits: { ...level.limits, budgets: known } };
  });
  return { ...reservation, levels };
}

const resetsField = (end: number): { resets?: number } => (Number.isFinite(end) ? { resets: end } : {});

const retryAfterField = (seconds: number | undefined): { retryAfter?: number } =>
  seconds === undefined ? {} : { retryAfter: seconds };

const spentMessage = (level: LimitedScope, nano: number, per: Period, spent: number): string =>
  `${limitOwner(level)} has spent ${formatDollars(spent)} of ${formatDollars(nano)}${per === "total" ? "" : ` ${eachPeriod(per)}`} (${Math.floor((spent / nano) * 100)} %).`;

/** Returns whose limit was exceeded, its size, and what is left of it. */
export function describeExcess({ limit, level, allowed, remaining, requested, per }: Excess): string {
  const who = limitOwner(level);
  switch (limit) {
    case "rpm":
      return `${who} may make ${allowed} ${plural(allowed, "request")} a minute: none is left.`;
    case "tpm":
      return `${who} may use ${allowed} ${plural(allowed, "token")} a minute: ${remaining} ${remaining === 1 ? "is" : "are"} left, and this request may use up to ${requested}.`;
    case "concurrency":
      return `${who} may run ${allowed} ${plural(allowed, "request")} at the same time: none is left.`;
    case "budget":
      return `${who} may spend ${formatDollars(allowed)}${per === undefined || per === "total" ? " in total" : ` ${eachPeriod(per)}`}: ${formatDollars(remaining)} is left, and this request may cost up to ${formatDollars(requested)}.`;
  }
}
