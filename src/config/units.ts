import type { Period } from "../core/calendar.ts";

// Quantities as people write them in gateway.yaml. Each parser throws a RangeError that shows the accepted forms.

/** A sum of money and its period. */
export interface Money {
  /** Integer nano-dollars. */
  nano: number;
  per: Period;
}

const MILLISECONDS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };
/** Milliseconds: a longer timer overflows in Node and fires at once. */
const MAX_TIMER_DELAY = 2 ** 31 - 1;
const BYTES = { B: 1, KB: 1e3, MB: 1e6, GB: 1e9, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30 };
const COUNTS = { "": 1, k: 1e3, K: 1e3, M: 1e6, G: 1e9 };

/** Returns milliseconds; 0 for `off`. */
export const parseDuration = (written: string | number): number =>
  written === "off" ? 0 : parseTime(written, "90s, 500ms, 5m, 1h or off", ", or off");

/** Returns milliseconds of a time that cannot be `off`. */
export const parsePeriod = (written: string | number): number => parseTime(written, "90s, 500ms, 5m or 1h", "");

function parseTime(written: string | number, forms: string, orOff: string): number {
  const leave = /^(on|yes|true)$/i.test(String(written)) ? ", or leave it out for the usual time" : "";
  const milliseconds = Math.round(parseScaled(written, MILLISECONDS, "duration", forms + leave));
  if (milliseconds > MAX_TIMER_DELAY) throw new RangeError(`${written} is too long: at most 596h${orOff}`);
  if (milliseconds === 0) throw new RangeError(`${written} is too short: more than 0${orOff}`);
  return milliseconds;
}

/** Formats milliseconds for `parseDuration`, in the largest unit that gives an integer. */
export function formatDuration(milliseconds: number): string {
  if (milliseconds === 0) return "off";
  const units = Object.entries(MILLISECONDS).reverse();
  const [unit, size] = units.find(([, size]) => milliseconds % size === 0) ?? ["ms", 1];
  return `${milliseconds / size}${unit}`;
}

/** Formats a share for `parsePercent`. */
export const formatPercent = (of: number): string => (of === 0 ? "off" : `${Number((of * 100).toFixed(6))}%`);

/** Returns milliseconds of whole days of retention: `400d`, `52w`; 0 for `off`. */
export function parseRetention(written: string | number): number {
  if (written === "off") return 0;
  const found = /^(\d{1,5})([dw])$/.exec(String(written));
  if (!found) throw invalidQuantity(written, "number of days", "400d, 52w or off");
  const days = Number(found[1]) * (found[2] === "w" ? 7 : 1);
  if (days < 2) throw new RangeError(`${written} is too short: 2d or more, or off`);
  return days * 24 * MILLISECONDS.h;
}

/** Returns bytes. */
export function parseSize(written: string | number): number {
  return toInteger(parseScaled(written, BYTES, "size", "64MiB, 1MB or 512KiB"), written, "size in bytes");
}

/** Returns a share from 0 to 1: `85%`; 0 for `off`. */
export function parsePercent(written: string | number): number {
  if (written === "off") return 0;
  const percent = Number(/^(\d{1,2}(?:\.\d+)?|100)%$/.exec(String(written))?.[1]);
  if (!(percent > 0)) throw invalidQuantity(written, "part of a whole", "85% or off");
  return percent / 100;
}

/** Formats bytes for `parseSize`, in the largest unit that gives an integer. */
export function formatSize(bytes: number): string {
  const units = Object.entries(BYTES).sort(([, a], [, b]) => b - a);
  const [unit, size] = units.find(([, size]) => bytes > 0 && bytes % size === 0) ?? ["B", 1];
  return `${bytes / size}${unit}`;
}

/** Formats milliseconds for `parseRetention`. */
export const formatRetention = (milliseconds: number): string =>
  milliseconds === 0 ? "off" : `${milliseconds / (24 * MILLISECONDS.h)}d`;

/**
 * Returns a number: `128k` is 128000.
 * @param forms the accepted forms, for the error
 */
export function parseCount(written: string | number, forms = "300, 400_000, 128k or 1M"): number {
  return toInteger(parseScaled(written, COUNTS, "count", forms), written, "count");
}

/** Formats a number for `parseCount`, in the largest unit that gives an integer. */
export function formatCount(number: number): string {
  const [unit, size] = (["G", "M", "k"] as const)
    .map((unit) => [unit, COUNTS[unit]] as const)
    .find(([, size]) => number > 0 && number % size === 0) ?? ["", 1];
  return `${number / size}${unit}`;
}

/** Formats a limit for `parseLimit`. */
export const formatLimit = (most: number): string => (most === 0 ? "off" : formatCount(most));

/** Returns a number as `parseCount`; 0 for `off`. */
export function parseLimit(written: string | number): number {
  if (written === "off") return 0;
  const most = parseCount(written, "300, 400_000, 128k, 1M or off");
  if (most === 0) throw new RangeError("0 would refuse every request; write 1 or more, or off");
  return most;
}

/** Parses `$50/month`, `$15/week`, `$10/day`, `$1/hour`, or `$100` in total. */
export function parseMoney(written: string | number): Money {
  const found = /^\$(\d[\d_]*)(?:\.(\d{1,9}))?(?:\/(hour|day|week|month))?$/.exec(String(written));
  if (!found)
    throw invalidQuantity(written, "sum of money", "$50/month, $15/week, $10/day, $1/hour or $100 (in total)");
  const [, dollars = "", fraction = "", per = "total"] = found;
  // Digits are joined as text: 0.1 has no exact binary form, nano-dollars are exact.
  const nano = Number(dollars.replaceAll("_", "") + fraction.padEnd(9, "0"));
  if (nano === 0) throw new RangeError("$0 would refuse every request; write more, or off");
  if (!Number.isSafeInteger(nano)) throw new RangeError(`${written} is too much: at most $9_000_000`);
  return { nano, per: per as Period };
}

/** Formats nano-dollars with all digits, without a currency sign: `1204.500000001`. */
export function exactDollars(nano: number): string {
  const digits = Math.abs(nano).toString().padStart(10, "0");
  const fraction = digits.slice(-9).replace(/0+$/, "");
  return `${nano < 0 ? "-" : ""}${digits.slice(0, -9)}${fraction === "" ? "" : `.${fraction}`}`;
}

/** Formats a sum and its period for `parseMoney`; cents have two digits. */
export const formatMoney = ({ nano, per }: Money): string =>
  `$${exactDollars(nano).replace(/\.\d$/, "$&0")}${per === "total" ? "" : `/${per}`}`;

/** Returns Unix milliseconds of `2026-12-31` (midnight UTC) or `2026-12-31T18:00:00Z`. */
export function parseDate(written: string): number {
  const found = /^(\d{4})-(\d\d)-(\d\d)(T\d\d:\d\d(:\d\d)?(Z|[+-]\d\d:\d\d))?$/.exec(written);
  const time = found ? Date.parse(written) : Number.NaN;
  // Date.parse accepts February 30 as March 2.
  const days = new Date(Date.UTC(Number(found?.[1]), Number(found?.[2]), 0)).getUTCDate();
  if (Number.isNaN(time) || Number(found?.[3]) > days)
    throw invalidQuantity(written, "date", "2026-12-31 or 2026-12-31T18:00:00Z");
  return time;
}

function parseScaled(written: string | number, units: Record<string, number>, kind: string, forms: string): number {
  const found = /^(\d[\d_]*(?:\.\d+)?)([a-zA-Z]*)$/.exec(String(written));
  const unit = found && Object.hasOwn(units, found[2] as string) && units[found[2] as string];
  if (!found || !unit) throw invalidQuantity(written, kind, forms);
  return Number((found[1] as string).replaceAll("_", "")) * unit;
}

function toInteger(value: number, written: string | number, kind: string): number {
  const rounded = Math.round(value);
  if (Math.abs(value - rounded) > 1e-6 || !Number.isSafeInteger(rounded))
    throw new RangeError(`${written} is not a whole ${kind}`);
  return rounded;
}

const invalidQuantity = (written: string | number, kind: string, forms: string): RangeError =>
  new RangeError(`${JSON.stringify(written)} is not a ${kind}; write it like ${forms}`);

/** Formats an address as in gateway.yaml: 127.0.0.1:8080, [::1]:8080. */
export const formatAddress = ({ host, port }: { readonly host: string; readonly port: number }): string =>
  host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
