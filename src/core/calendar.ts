/** The period of a budget. `total`: once, for the whole lifetime. */
export const PERIODS = ["hour", "day", "week", "month", "total"] as const;
export type Period = (typeof PERIODS)[number];

/** Unix milliseconds: the start of a period, and its exclusive end. */
interface PeriodSpan {
  readonly start: number;
  readonly end: number;
}

const UNBOUNDED: PeriodSpan = { start: 0, end: Number.POSITIVE_INFINITY };

/** The start and end of hours, days, weeks (from Monday) and months in a time zone. */
export class Calendar {
  private readonly spans = new Map<Period, PeriodSpan>();

  /**
   * @param zone an IANA name, like `Europe/Berlin`
   * @throws RangeError for an unknown name
   */
  constructor(readonly zone = "UTC") {
    try {
      Temporal.Instant.fromEpochMilliseconds(0).toZonedDateTimeISO(zone);
    } catch {
      throw new RangeError(`${JSON.stringify(zone)} is not a time zone; write one like Europe/Berlin or UTC`);
    }
  }

  /**
   * Returns the period of that length that contains a time.
   * @param now Unix milliseconds
   */
  span(per: Period, now: number): PeriodSpan {
    if (per === "total") return UNBOUNDED;
    const known = this.spans.get(per);
    if (known && now >= known.start && now < known.end) return known;
    const span = this.spanAround(per, now);
    this.spans.set(per, span);
    return span;
  }

  private spanAround(per: Exclude<Period, "total">, now: number): PeriodSpan {
    const time = Temporal.Instant.fromEpochMilliseconds(Math.floor(now)).toZonedDateTimeISO(this.zone);
    if (per === "hour") {
      const start = time.round({ smallestUnit: "hour", roundingMode: "floor" });
      const end = start.add({ hours: 1 }).epochMilliseconds;
      if (now < end) return { start: start.epochMilliseconds, end };
      // Clocks were set back by half an hour within this one (Lord Howe Island): the rest of it is a period of its own.
      return { start: end, end: time.round({ smallestUnit: "hour", roundingMode: "ceil" }).epochMilliseconds };
    }
    const date = time.toPlainDate();
    const first =
      per === "day" ? date : per === "week" ? date.subtract({ days: date.dayOfWeek - 1 }) : date.with({ day: 1 });
    const next = first.add(per === "day" ? { days: 1 } : per === "week" ? { weeks: 1 } : { months: 1 });
    // The first existing time of the day: in some zones clocks skip midnight.
    const moment = (day: Temporal.PlainDate) => day.toZonedDateTime(this.zone).startOfDay().epochMilliseconds;
    return { start: moment(first), end: moment(next) };
  }
}

/** Calendar days in a time zone. */
export class Days {
  private readonly calendar: Calendar;

  constructor(zone: string) {
    this.calendar = new Calendar(zone);
  }

  /**
   * Returns the start of the day.
   * @param now Unix milliseconds
   */
  today(now: number): number {
    return this.calendar.span("day", now).start;
  }

  yesterday(now: number): number {
    return new Calendar(this.calendar.zone).span("day", this.today(now) - 1).start;
  }
}
