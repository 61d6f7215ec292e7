import type { HeaderList } from "./headers.ts";

/**
 * Seconds after which asking again makes sense, as the head of an answer says: `retry-after-ms`, or `retry-after` as a number or
 * as a date, which counts from the answer's own `date` where it has one: two clocks rarely agree. Undefined: it says nothing.
 */
export function retryAfter(headers: HeaderList): number | undefined {
  const ms = Number.parseFloat(headers.get("retry-after-ms") ?? "");
  if (ms >= 0) return ms / 1000;
  const after = headers.get("retry-after") ?? "";
  if (/^\d+(?:\.\d+)?$/.test(after)) return Number(after);
  // A date begins with the day of the week; Date.parse takes much else for one.
  const date = /^[a-z]{3,9},? /i.test(after) ? Date.parse(after) : Number.NaN;
  if (Number.isNaN(date)) return undefined;
  const now = Date.parse(headers.get("date") ?? "");
  return Math.max(0, (date - (Number.isNaN(now) ? Date.now() : now)) / 1000);
}
