import { Calendar } from "../core/calendar.ts";
import type { Ledger, LedgerQuery, LedgerSpan, LedgerSum } from "./ledger.ts";
import { DAY } from "./ledger-sums.ts";

/** A day of a time zone, or what of it lies in a span. */
export interface LocalDay extends Required<LedgerSpan> {
  /** As 2026-11-20. */
  readonly day: string;
}

/** The days of a span as the clocks of a zone have them. */
export function* localDays({ since, until }: Required<LedgerSpan>, zone: string): Generator<LocalDay> {
  const calendar = new Calendar(zone);
  for (let from = since; from < until; ) {
    const { end } = calendar.span("day", from);
    const day = Temporal.Instant.fromEpochMilliseconds(from).toZonedDateTimeISO(zone).toPlainDate().toString();
    yield { day, since: from, until: Math.min(end, until) };
    from = end;
  }
}

/** Sums of some local days, with the day where the query has it. Those that the ledger keeps are UTC's, so it is asked for each. */
export async function sumsOfDays(
  ledger: Pick<Ledger, "sums">,
  by: LedgerQuery["by"],
  days: Iterable<LocalDay>,
): Promise<LedgerSum[]> {
  const others = by.filter((each) => each !== "day");
  const at = by.indexOf("day");
  const sums: LedgerSum[] = [];
  // Without any group a day on which there was nothing has a sum too.
  for (const { day, since, until } of days)
    for (const sum of await ledger.sums({ since, until, by: others }))
      if (sum.requests > 0) sums.push({ ...sum, group: sum.group.toSpliced(at, 0, day) });
  return sums;
}

/** Sums by days of a zone, of any span: only days are asked for on which there may be something. */
export async function sumsByLocalDay(
  ledger: Pick<Ledger, "sums">,
  query: LedgerQuery,
  zone: string,
): Promise<LedgerSum[]> {
  const starts = (await ledger.sums({ ...query, by: ["day"] })).map(({ group: [day = ""] }) => Date.parse(day));
  const first = starts[0];
  const last = starts.at(-1);
  if (first === undefined || last === undefined) return [];
  const some = new Set(starts);
  const { since = 0, until = Number.MAX_SAFE_INTEGER } = query;
  const span = { since: Math.max(since, first), until: Math.min(until, last + DAY) };
  const utc = (time: number) => Math.floor(time / DAY) * DAY;
  const days = localDays(span, zone).filter((day) => some.has(utc(day.since)) || some.has(utc(day.until - 1)));
  return sumsOfDays(ledger, query.by, days);
}
