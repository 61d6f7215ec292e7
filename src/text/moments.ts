import { Days } from "../core/calendar.ts";

const UNITS = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };

/** The accepted forms of a moment, for help texts and errors. */
export const MOMENT_FORMS = "90s, 30m, 24h, 90d, 2w, or a date like 2026-11-01 or 2026-11-01T12:00Z (UTC)";

/**
 * Parses a moment to Unix milliseconds: a date (its start in UTC), a date with a time, or a span relative to now.
 * @param direction of spans: 1 future, -1 past
 * @param accepted forms, for the error
 * @throws Error that says what is accepted.
 */
export function parseMoment(text: string, direction: 1 | -1, now: number, accepted = MOMENT_FORMS): number {
  const span = /^(\d{1,6})([smhdw])$/.exec(text);
  if (span) return now + direction * Number(span[1]) * UNITS[span[2] as keyof typeof UNITS];
  const date = /^(\d{4}-\d\d-\d\d)(?:T(\d\d:\d\d(?::\d\d)?)Z?)?$/.exec(text);
  const time = date ? Date.parse(`${date[1]}T${date[2] ?? "00:00"}Z`) : Number.NaN;
  // The 30th of February would silently be a day of March.
  if (!Number.isNaN(time) && new Date(time).toISOString().startsWith(date?.[1] ?? "")) return time;
  throw new Error(`${JSON.stringify(text)} is not a time. Write ${accepted}.`);
}

/** The accepted forms of a past moment. */
export const PAST_MOMENT_FORMS =
  "today, yesterday or a date like 2026-11-01 or 2026-11-01T12:00 (in gateway.yaml's timezone), 90s, 30m, 24h, 90d, 2w, or 2026-11-01T12:00Z";

/**
 * Returns the start of a date, or a date with a time, in a time zone, in Unix milliseconds; undefined: neither.
 * @param zone called only where it matters
 */
function parseDateIn(text: string, zone: () => string): number | undefined {
  const form = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(?::\d\d)?)?$/.exec(text);
  if (!form) return undefined;
  // Outside of the try: that the zone is not known is no reason to read the text in another one.
  const timeZone = zone();
  try {
    return form[1] === undefined
      ? Temporal.PlainDate.from(text).toZonedDateTime(timeZone).startOfDay().epochMilliseconds
      : Temporal.PlainDateTime.from(text).toZonedDateTime(timeZone).epochMilliseconds;
  } catch {
    return undefined;
  }
}

/**
 * Parses a past moment to Unix milliseconds: also the start of today, yesterday or a date, a time without `Z` in the same zone as
 * these, Unix milliseconds, or any form of `parseMoment`.
 * @param zone time zone of the days, called only where it matters
 * @throws Error that says what is accepted.
 */
export function parsePastMoment(text: string, now: number, zone: () => string): number {
  if (/^\d{10,15}$/.test(text)) return Number(text);
  if (text === "today") return new Days(zone()).today(now);
  if (text === "yesterday") return new Days(zone()).yesterday(now);
  return parseDateIn(text, zone) ?? parseMoment(text, -1, now, PAST_MOMENT_FORMS);
}

/** Parses a span like 24h or 0s to milliseconds. @param name of the option @throws Error that says what is accepted */
export function parseTimeSpan(text: string, name: string): number {
  if (!/^\d{1,6}[smhdw]$/.test(text)) throw new Error(`${name} takes a span like 24h, 7d or 0s.`);
  return parseMoment(text, 1, 0);
}
