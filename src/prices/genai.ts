import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { calcPrice } from "@pydantic/genai-prices";
import type { Price, Rates } from "../core/price.ts";
import type { DatedPrice } from "../core/price-list.ts";

/** What genai-prices knows of a model. */
export interface KnownPrices {
  context?: number;
  prices: readonly DatedPrice[];
  /** Only a rule for names that begin or end alike has found it. */
  guessed: boolean;
}

/** A number, or one for a start and others from some tokens on; the whole request has that of its step. */
type Value = number | { base: number; tiers: { start: number; price: number }[] };
type PriceTable = Record<string, Value | undefined>;
type Constraint =
  | { type: "start_date"; start_date: string }
  | { type: "time_of_date"; start_time: string; end_time: string };

const RATES: Readonly<Record<string, keyof Rates>> = {
  input_mtok: "input",
  cache_read_mtok: "cached",
  cache_write_mtok: "cache_write",
  cache_write_1h_mtok: "cache_write_1h",
  output_mtok: "output",
  output_reasoning_mtok: "reasoning",
  input_audio_mtok: "input_audio",
  cache_audio_read_mtok: "cached_audio",
  output_audio_mtok: "output_audio",
  input_image_mtok: "input_image",
  cache_image_read_mtok: "cached_image",
  output_image_mtok: "output_image",
  input_video_mtok: "input_video",
};

/** Of the package's `package.json`. */
export const GENAI_VERSION = version();

function version(): string {
  const entry = createRequire(import.meta.url).resolve("@pydantic/genai-prices");
  const text = readFileSync(new URL("../package.json", new URL(`file://${entry}`)), "utf8");
  return (JSON.parse(text) as { version: string }).version;
}

/** Looks a model up, by the vendor's own name. Undefined where it is not known or has no price that the gateway can reckon with. */
export function genaiPrices(vendor: string, model: string): KnownPrices | undefined {
  const found = lookUp(vendor, model);
  if (!found) return undefined;
  const { id, match, prices, context_window: context } = found;
  const list = Array.isArray(prices) ? prices : [{ prices }];
  const dated = list.map(
    ({ constraint, prices: table }): DatedPrice => ({
      price: priceOf(table as PriceTable),
      ...whenOf(constraint as Constraint | undefined),
    }),
  );
  // What is sold by the hour, the page or the message is none of ours.
  if (dated.some(({ price }) => price.input === undefined && price.output === undefined)) return undefined;
  return {
    ...(typeof context === "number" && context > 0 ? { context } : {}),
    prices: dated,
    guessed: !isNamed(model.toLowerCase(), id, match),
  };
}

/** The package throws on what it does not expect. */
function lookUp(vendor: string, model: string) {
  try {
    return calcPrice({ input_tokens: 0, output_tokens: 0 }, model, { providerId: vendor })?.model;
  } catch {
    return undefined;
  }
}

const DATE = /[-@](?:\d{8}|\d{4}-\d{2}-\d{2})$/;

/** Whether a rule names this very model, or this with a date. */
function isNamed(model: string, id: string, match: unknown): boolean {
  const bare = model.replace(DATE, "");
  return [model, bare].some((name) => name === id.toLowerCase() || names(match, name));
}

function names(match: unknown, name: string): boolean {
  const { equals, regex, or } = (match ?? {}) as { equals?: string; regex?: string; or?: unknown[] };
  if (equals !== undefined) return equals.toLowerCase() === name;
  if (regex !== undefined) return /^\^.*\$$/.test(regex) && new RegExp(regex).test(name);
  return or?.some((each) => names(each, name)) ?? false;
}

function priceOf(table: PriceTable): Price {
  const base: Rates = {};
  const above = new Map<number, Rates>();
  for (const [unit, value] of Object.entries(table)) {
    const name = RATES[unit];
    if (name === undefined || value === undefined) continue;
    base[name] = typeof value === "number" ? value : value.base;
    if (typeof value === "number") continue;
    for (const { start, price } of value.tiers) above.set(start, { ...above.get(start), [name]: price });
  }
  const steps = [...above].map(([tokens, rates]) => ({ tokens, ...rates }));
  const [searches, requests] = [table["web_searches_kcount"], table["requests_kcount"]];
  return {
    ...base,
    ...(steps.length > 0 ? { above: steps } : {}),
    ...(typeof searches === "number" ? { web_search: perEach(searches) } : {}),
    ...(typeof requests === "number" ? { request: perEach(requests) } : {}),
  };
}

/** Of a price for a thousand. */
const perEach = (thousand: number): number => Math.round(thousand * 1e6) / 1e9;

function whenOf(constraint: Constraint | undefined): Omit<DatedPrice, "price"> {
  if (!constraint) return {};
  if (constraint.type === "start_date") return { from: Date.parse(constraint.start_date) };
  return { daily: { start: timeOf(constraint.start_time), end: timeOf(constraint.end_time) } };
}

/** Milliseconds of a time like `16:30:00Z`. */
const timeOf = (text: string): number => Date.parse(`1970-01-01T${text}`);
