import { Days } from "../core/calendar.ts";
import { thrownMessage } from "../core/errors.ts";
import type { LedgerSpan } from "../store/ledger.ts";
import { DAY } from "../store/ledger-sums.ts";
import { parsePastMoment } from "../text/moments.ts";
import { AdminError } from "./errors.ts";

/** Parses the requested time span; the last 24 hours by default. @throws AdminError */
export function querySpan(query: URLSearchParams, zone: string, now = Date.now()): Required<LedgerSpan> {
  const since = query.get("since");
  const until = query.get("until");
  return {
    since: since === null ? now - DAY : parsePast(since, now, zone),
    until: until === null ? now + 1 : parsePast(until, now, zone),
  };
}

/**
 * Returns the span of the same length before the requested one: for today, yesterday up to the same time; for yesterday, the day
 * before.
 * @throws AdminError
 */
export function precedingSpan(query: URLSearchParams, zone: string, now = Date.now()): Required<LedgerSpan> {
  const { since, until } = querySpan(query, zone, now);
  const [first, last] = [query.get("since"), query.get("until")];
  if (first !== "today" && !(first === "yesterday" && last === "today"))
    return { since: since - (until - since), until: since };
  // Days differ in length where clocks change.
  const from = new Days(zone).yesterday(since);
  return { since: from, until: first === "yesterday" ? since : Math.min(from + (until - since), since) };
}

function parsePast(text: string, now: number, zone: string): number {
  // A program may write 0 for the beginning of all.
  if (/^\d{1,15}$/.test(text)) return Number(text);
  try {
    return parsePastMoment(text, now, () => zone);
  } catch (thrown) {
    throw new AdminError("bad_request", thrownMessage(thrown));
  }
}
