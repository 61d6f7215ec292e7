import { when } from "../cli/when.ts";
import { Calendar } from "../core/calendar.ts";
import type { LedgerSpan } from "../store/ledger.ts";
import { AdminError } from "./errors.ts";

const DAY = 86_400_000;

/** Days as people count them, where the clocks of a zone hang. */
export class Days {
  private readonly calendar: Calendar;

  constructor(zone: string) {
    this.calendar = new Calendar(zone);
  }

  /** The first moment of the day. @param now Unix milliseconds */
  today(now: number): number {
    return this.calendar.span("day", now).start;
  }

  yesterday(now: number): number {
    return new Calendar(this.calendar.zone).span("day", this.today(now) - 1).start;
  }
}

/** The span of time that is asked for; without any the last 24 hours. @throws AdminError */
export function spanOf(query: URLSearchParams, zone: string, now = Date.now()): Required<LedgerSpan> {
  const since = query.get("since");
  const until = query.get("until");
  const days = new Days(zone);
  return {
    since: since === null ? now - DAY : moment(since, now, days),
    until: until === null ? now + 1 : moment(until, now, days),
  };
}

function moment(text: string, now: number, days: Days): number {
  if (/^\d{10,15}$/.test(text)) return Number(text);
  if (text === "today") return days.today(now);
  if (text === "yesterday") return days.yesterday(now);
  try {
    return when(text, -1, now);
  } catch (thrown) {
    throw new AdminError("bad_request", (thrown as Error).message);
  }
}
