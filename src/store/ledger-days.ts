import { Calendar } from "../core/calendar.ts";
import type { Ledger, LedgerQuery, LedgerSpan, LedgerSum } from "./ledger.ts";
import { DAY } from "./ledger-sums.ts";

/** A day in a time zone, or the part of it within a span. */
interface LocalDay extends Required<LedgerSpan> {
  /** Like 2026-11-20. */
  readonly day: string;
}

/** Yields the days of a span in a time zone. */
export function* localDays({ since, until }: Required<LedgerSpan>, zone: string): Generator<LocalDay> {
  const calendar = new Calendar(zone);
  for (let from = since; from < until; ) {
    const { end } = calendar.span("day", from);
    const day = Temporal.Instant.fromEpochMilliseconds(from).toZonedDateTimeISO(zone).toPlainDate().toString();
    yield { day, since: from, until: Math.min(end, until) };
    from = end;
  }
}

/** How many of the most expensive sums are returned, of each day and in all. */
interface DaysLimit {
  readonly each: number;
  readonly all: number;
}

/**
 * Returns the sums of consecutive local days, with the day in the group if the query has it. Stored sums are of UTC days: where
 * local days are others, each is a query.
 */
export async function sumsOfDays(
  ledger: Pick<Ledger, "sums">,
  by: LedgerQuery["by"],
  days: readonly LocalDay[],
  limit?: DaysLimit,
  among?: LedgerQuery["among"],
): Promise<LedgerSum[]> {
  const [first, last] = [days[0], days.at(-1)];
  const only = among && { among };
  if (first && last && by.includes("day") && days.every(isOfUtcDay))
    return ledger.sums({ since: first.since, until: last.until, by, ...only, ...(limit && { limit: limit.all }) });
  const others = by.filter((each) => each !== "day");
  const at = by.indexOf("day");
  let sums: LedgerSum[] = [];
  for (const { day, since, until } of days) {
    // Without groups, a day without requests has a sum too.
    for (const sum of await ledger.sums({ since, until, by: others, ...only, ...(limit && { limit: limit.each }) }))
      if (sum.requests > 0) sums.push({ ...sum, group: sum.group.toSpliced(at, 0, day) });
    if (limit) sums = mostExpensive(sums, limit.all);
  }
  return sums;
}

/** Returns so many of the most expensive sums, in the order of all. */
export function mostExpensive(sums: LedgerSum[], count: number): LedgerSum[] {
  if (sums.length <= count) return sums;
  const ranked = sums.toSorted((one, other) => other.cost - one.cost || other.requests - one.requests);
  const kept = new Set(ranked.slice(0, count));
  return sums.filter((sum) => kept.has(sum));
}

const isOfUtcDay = ({ day, since, until }: LocalDay): boolean => {
  const start = Date.parse(day);
  return since >= start && until <= start + DAY;
};

/** Returns sums by local days of any span: only days that may have entries are queried. */
export async function sumsByLocalDay(
  ledger: Pick<Ledger, "sums">,
  query: LedgerQuery,
  zone: string,
): Promise<LedgerSum[]> {
  const starts = (await ledger.sums({ ...query, by: ["day"] })).map(({ group: [day = ""] }) => Date.parse(day));
  const first = starts[0];
  const last = starts.at(-1);
  if (first === undefined || last === undefined) return [];
  const used = new Set(starts);
  const { since = 0, until = Number.MAX_SAFE_INTEGER } = query;
  const span = { since: Math.max(since, first), until: Math.min(until, last + DAY) };
  const utc = (time: number) => Math.floor(time / DAY) * DAY;
  const days = localDays(span, zone).filter((day) => used.has(utc(day.since)) || used.has(utc(day.until - 1)));
  return sumsOfDays(ledger, query.by, [...days]);
}
