const UNITS = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };

/** How a moment may be written, for help texts and refusals. */
export const WHEN = "90s, 30m, 24h, 90d, 2w, or a date like 2026-11-01 or 2026-11-01T12:00Z (UTC)";

/**
 * A moment as people write it, in Unix milliseconds: a date (its first moment in UTC), a time, or a span counted from now.
 * @param direction where spans go: 1 ahead, -1 back
 * @throws Error that says what is accepted.
 */
export function when(text: string, direction: 1 | -1, now: number): number {
  const span = /^(\d{1,6})([smhdw])$/.exec(text);
  if (span) return now + direction * Number(span[1]) * UNITS[span[2] as keyof typeof UNITS];
  const date = /^(\d{4}-\d\d-\d\d)(?:T(\d\d:\d\d(?::\d\d)?)Z?)?$/.exec(text);
  const time = date ? Date.parse(`${date[1]}T${date[2] ?? "00:00"}Z`) : Number.NaN;
  // The 30th of February would silently be a day of March.
  if (!Number.isNaN(time) && new Date(time).toISOString().startsWith(date?.[1] ?? "")) return time;
  throw new Error(`${JSON.stringify(text)} is no moment. Write ${WHEN}.`);
}
