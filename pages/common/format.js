/** How numbers, times and money are written. */

const thousands = new Intl.NumberFormat("en-US");

/** A whole number. */
export const count = (number) => (number === undefined || number === null ? "–" : thousands.format(number));

const ONE_PLACE = 10;

/** Tokens as people say them: 128k, 1.1M. */
export function tokens(number) {
  if (number === undefined || number === null) return "–";
  for (const [unit, size] of [
    ["G", 1e9],
    ["M", 1e6],
    ["k", 1e3],
  ])
    if (number >= size) return `${Math.round((number / size) * ONE_PLACE) / ONE_PLACE}${unit}`;
  return String(number);
}

/** US dollars with as many digits as matter: three of a sum below a dollar. */
export function dollars(amount) {
  if (amount === undefined || amount === null) return "–";
  if (amount === 0) return "$0";
  const size = Math.abs(amount);
  const digits = size >= 1 ? 2 : Math.min(9, 2 - Math.floor(Math.log10(size)));
  return amount.toLocaleString("en-US", {
    style: "currency",
    currency: "USD",
    minimumFractionDigits: 2,
    maximumFractionDigits: digits,
  });
}

const NANO = 1e9;

/** US dollars from integer nano-dollars. */
export const money = (nano) => dollars(nano === undefined || nano === null ? undefined : nano / NANO);

/** A price per million tokens, to the digit. */
export const price = (usd) =>
  usd === undefined || usd === null
    ? "–"
    : usd === 0
      ? "free"
      : `$${usd.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 6 })}`;

const SECOND = 1000;
const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** A duration from milliseconds. */
export function duration(ms) {
  if (ms === undefined || ms === null || !Number.isFinite(ms)) return "–";
  if (ms < SECOND) return `${Math.round(ms)} ms`;
  const seconds = ms / SECOND;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 2 * MINUTE) return `${Math.round(seconds)} s`;
  if (seconds < 2 * HOUR) return `${Math.round(seconds / MINUTE)} min`;
  if (seconds < 2 * DAY) return `${Math.round(seconds / HOUR)} h`;
  return `${Math.round(seconds / DAY)} d`;
}

/** A share from 0 to 1. */
export const percent = (share) =>
  share === undefined || share === null || Number.isNaN(share)
    ? "–"
    : `${(share * 100).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %`;

/** A moment in the reader's zone. */
export const moment = (ms) =>
  new Date(ms).toLocaleString(undefined, {
    month: "short",
    day: "2-digit",
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
    hour12: false,
  });

/** The same in UTC, to the millisecond. */
export const utc = (ms) => new Date(ms).toISOString();
