/** Formats of numbers, times, money and JSON. */

// Without Intl: its data, loaded at first use, and its formatters take longer than everything else on a page.

/** Formats a number with `least` to `most` decimals, without trailing zeros, and with commas. */
function written(number, least, most) {
  const rounded = Math.round(number * 10 ** most) / 10 ** most;
  const [whole, rest = ""] = rounded.toFixed(most).split(".");
  let end = rest.length;
  while (end > least && rest[end - 1] === "0") end--;
  const grouped = whole.replace(/\B(?=(?:\d{3})+$)/g, ",");
  return end > 0 ? `${grouped}.${rest.slice(0, end)}` : grouped;
}

/** Formats a whole number. */
export const count = (number) => (number === undefined || number === null ? "–" : written(number, 0, 0));

/** Formats a count with its noun: 1 request, 2 requests. */
export const counted = (number, thing) => `${count(number)} ${thing}${number === 1 ? "" : "s"}`;

/** Formats how a request ended: its status, where one was sent (0: none was), and its outcome. */
export const ending = ({ status, outcome }) => `${status > 0 ? `${status} ` : ""}${outcome.replaceAll("_", " ")}`;

/** Returns a display name for each key's id: its name, with the id where several keys have or had that name. */
export function keyNames(keys) {
  const names = new Map();
  const byName = Map.groupBy(keys, ({ name }) => name);
  for (const { id, name } of keys) names.set(id, byName.get(name).length > 1 && name !== id ? `${name} (${id})` : name);
  return names;
}

const ONE_PLACE = 10;
/** From this part of a unit on, a number in the next smaller one would be rounded up to 1,000 of it. */
const ROUNDED_UP = 0.99995;

/** Formats tokens: 128k, 1.1M. */
export function tokens(number) {
  if (number === undefined || number === null) return "–";
  for (const [unit, size] of [
    ["G", 1e9],
    ["M", 1e6],
    ["k", 1e3],
  ])
    if (number >= size * ROUNDED_UP) return `${Math.round((number / size) * ONE_PLACE) / ONE_PLACE}${unit}`;
  return String(number);
}

/** Formats US dollars with the digits that matter: three of a sum below a dollar. */
export function dollars(amount) {
  if (amount === undefined || amount === null) return "–";
  if (amount === 0) return "$0";
  const size = Math.abs(amount);
  const digits = size >= 1 ? 2 : Math.min(9, 2 - Math.floor(Math.log10(size)));
  return `${amount < 0 ? "-" : ""}$${written(size, 2, digits)}`;
}

const NANO = 1e9;

/** Formats integer nano-dollars as US dollars. */
export const money = (nano) => dollars(nano === undefined || nano === null ? undefined : nano / NANO);

/** Formats a budget: $5 a day, only warns. */
export const budgetText = ({ nano, per, soft }) =>
  `${money(nano)} ${per === "total" ? "in all" : `${per === "hour" ? "an" : "a"} ${per}`}${soft ? ", only warns" : ""}`;

/** Formats a price per million tokens exactly. */
export const price = (usd) => (usd === undefined || usd === null ? "–" : usd === 0 ? "free" : `$${written(usd, 2, 6)}`);

const SECOND = 1000;
const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** Formats a duration in milliseconds. */
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

/** Formats a share from 0 to 1. */
export const percent = (share) =>
  share === undefined || share === null || Number.isNaN(share)
    ? "–"
    : `${(share * 100).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %`;

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const two = (number) => String(number).padStart(2, "0");

/** Formats a moment in the reader's time zone, with the year where it is another than this one. */
export function moment(ms) {
  const date = new Date(ms);
  const year = date.getFullYear() === new Date().getFullYear() ? "" : ` ${date.getFullYear()}`;
  const time = [date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(":");
  return `${MONTHS[date.getMonth()]} ${two(date.getDate())}${year}, ${time}`;
}

/** The same without seconds. */
export const minute = (ms) => moment(ms).slice(0, -":00".length);

/** Formats the offset of the reader's time zone at a moment: UTC+2, UTC+5:30. */
export function offset(ms) {
  const minutes = -new Date(ms).getTimezoneOffset();
  const [hours, rest] = [Math.floor(Math.abs(minutes) / MINUTE), Math.abs(minutes) % MINUTE];
  return minutes === 0 ? "UTC" : `UTC${minutes < 0 ? "−" : "+"}${hours}${rest > 0 ? `:${two(rest)}` : ""}`;
}

/** Indents JSON; returns any other text unchanged. */
export function indented(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/** Formats a moment in UTC, to the millisecond. */
export const utc = (ms) => new Date(ms).toISOString();
