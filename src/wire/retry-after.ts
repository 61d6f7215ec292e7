import type { HeaderList } from "./headers.ts";

/**
 * Returns the seconds after which a retry makes sense, from a response head: `retry-after-ms`, or `retry-after` as a number or a
 * date, relative to the response's own `date` if it has one, as clocks of two hosts rarely agree. Undefined: neither is given.
 */
export function parseRetryAfter(headers: HeaderList): number | undefined {
  const ms = Number.parseFloat(headers.get("retry-after-ms") ?? "");
  if (ms >= 0 && Number.isFinite(ms)) return ms / 1000;
  const after = headers.get("retry-after") ?? "";
  if (/^\d+(?:\.\d+)?$/.test(after)) return Math.min(Number(after), Number.MAX_SAFE_INTEGER); // 400 digits would be Infinity
  // An HTTP date begins with the day of the week; Date.parse accepts many other texts.
  const date = /^[a-z]{3,9},? /i.test(after) ? Date.parse(after) : Number.NaN;
  if (Number.isNaN(date)) return undefined;
  const now = Date.parse(headers.get("date") ?? "");
  return Math.max(0, (date - (Number.isNaN(now) ? Date.now() : now)) / 1000);
}
