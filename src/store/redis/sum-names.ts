import { type Calendar, PERIODS, type Period } from "../../core/calendar.ts";
import type { LimitLevel } from "../../core/limits.ts";
import { isRepeated, tokensToReserve } from "../limit-results.ts";
import type { Reservation, Unreserved } from "../limiter.ts";

/** Milliseconds for which a sum is kept after its period, and for which a sum without a period is kept when unused. */
const TTL_AFTER_PERIOD = 2 * 86_400_000;
const TTL_WITHOUT_PERIOD = 7 * 86_400_000;
/** Nano-dollars; Redis's own integers end at 2^63. */
const MAX_SUM = 2n ** 62n;

/** The name of a sum: the money of a scope in one period. */
export interface SumName {
  readonly name: string;
  readonly scope: string;
  readonly per: Period;
  /** Unix milliseconds. */
  readonly start: number;
}

export function sumName(scope: string, per: Period, calendar: Calendar, now: number): SumName {
  const { start } = calendar.span(per, now);
  return { name: `${per}:${start}:${scope}`, scope, per, start };
}

export function parseSumName(name: string): SumName {
  const [per = "", start = ""] = name.split(":", 2);
  return { name, per: per as Period, start: Number(start), scope: name.slice(per.length + start.length + 2) };
}

/** Returns the milliseconds for which to keep a sum. */
export function sumTtl({ per, start }: SumName, calendar: Calendar, now: number): number {
  return per === "total" ? TTL_WITHOUT_PERIOD : Math.max(0, calendar.span(per, start).end - now) + TTL_AFTER_PERIOD;
}

/** Returns the sums of a level: one for each kind of period. */
export const levelSumNames = (
  { scope, limits: { budgets = [] } }: LimitLevel,
  calendar: Calendar,
  now: number,
): SumName[] => budgets.filter((_, i) => !isRepeated(budgets, i)).map(({ per }) => sumName(scope, per, calendar, now));

/** Returns the sums of all budgets that scopes may have. */
export const possibleSumNames = ({ scopes, time }: Unreserved, calendar: Calendar): SumName[] =>
  scopes.flatMap((scope) => PERIODS.map((per) => sumName(scope, per, calendar, time)));

/** Nano-dollars, as an integer in decimal digits. */
export function toDecimal(nano: number): string {
  if (!Number.isFinite(nano)) return String(nano > 0 ? MAX_SUM : 0n);
  const whole = BigInt(Math.round(nano));
  return String(whole > MAX_SUM ? MAX_SUM : whole < -MAX_SUM ? -MAX_SUM : whole);
}

/** Serializes a level for scripts; see redis/prelude.lua. */
export const packLevel = (level: LimitLevel, tokens: number, calendar: Calendar, now: number) => {
  const { rpm = 0, tpm = 0, concurrency = 0, budgets = [] } = level.limits;
  const sums = budgets.map(({ nano, per, soft }) => [
    sumName(level.scope, per, calendar, now).name,
    soft ? "" : toDecimal(nano),
  ]);
  return [level.scope, rpm, tpm, tpm > 0 ? Math.ceil(tokensToReserve({ tokens, cost: 0 }, tpm)) : 0, concurrency, sums];
};

/**
 * Serializes a reservation for scripts.
 * @param unknown names of sums that could not be loaded, of soft budgets of its levels
 */
export function packReservation(
  { levels, maximum, minimum }: Reservation,
  calendar: Calendar,
  now: number,
  unknown: readonly string[] = [],
): string {
  const unknownOf = (scope: string) => unknown.filter((name) => parseSumName(name).scope === scope);
  return JSON.stringify({
    maximum: [Math.ceil(maximum.tokens), toDecimal(maximum.cost)],
    minimum: [Math.ceil(minimum.tokens), toDecimal(minimum.cost)],
    levels: levels.map((level) => {
      const packed = packLevel(level, maximum.tokens, calendar, now);
      return unknown.length === 0 ? packed : [...packed, unknownOf(level.scope)];
    }),
  });
}
