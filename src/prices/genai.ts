import { readFileSync } from "node:fs";
import { undatedName } from "../core/marketplace.ts";
import type { Price, Rates } from "../core/price.ts";
import type { DatedPrice } from "../core/price-list.ts";
import {
  type GenaiConstraint,
  type GenaiExtract,
  type GenaiModel,
  type GenaiRates,
  type GenaiVendor,
  isDated,
  type NameRule,
  type StoredGenaiExtract,
  unpackGenai,
} from "./genai-table.ts";

/** A model's data in genai-prices. */
export interface GenaiPrices {
  context?: number;
  prices: readonly DatedPrice[];
  /** Whether only a rule for similar names matched. */
  guessed: boolean;
}

const GENAI_RATES: Readonly<Record<string, keyof Rates>> = {
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

const FILE = new URL("genai.json", import.meta.url);

let extract: GenaiExtract | undefined;

/** Reads the table on first use. */
const table = (): GenaiExtract =>
  (extract ??= unpackGenai(JSON.parse(readFileSync(FILE, "utf8")) as StoredGenaiExtract));

/** Returns the version of the package that the table was extracted from. */
export const genaiVersion = (): string => table().version;

/** Looks a model up by the vendor's own name. Undefined if it is unknown or has no price that the gateway can compute with. */
export function genaiPrices(vendor: string, model: string): GenaiPrices | undefined {
  const found = findModel(vendor, model);
  if (!found) return undefined;
  const { id, match, prices, context_window: context } = found;
  const dated = isDated(prices)
    ? prices.map(({ constraint, prices }): DatedPrice => ({ price: genaiPrice(prices), ...validityOf(constraint) }))
    : [{ price: genaiPrice(prices) }];
  // Models sold by the hour, page or message are not supported.
  if (dated.some(({ price }) => price.input === undefined && price.output === undefined)) return undefined;
  return {
    ...(typeof context === "number" && context > 0 ? { context } : {}),
    prices: dated,
    guessed: !isExactMatch(model.toLowerCase(), id, match),
  };
}

/** A date in a name as vendors write it, where the table has dashes. */
const SOLID_DATE = /-(20\d\d)(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])(?=-|:|$)/g;

/** Returns the first model whose rule matches, like the package itself. */
function findModel(vendor: string, model: string): GenaiModel | undefined {
  const found = table().vendors.find(({ id }) => id === vendor);
  return found && (findVendorModel(found, model) ?? findVendorModel(found, model.replace(SOLID_DATE, "-$1-$2-$3")));
}

function findVendorModel(
  { models, fallback_model_providers: others = [] }: GenaiVendor,
  model: string,
): GenaiModel | undefined {
  const found = models.find(({ id, match = { equals: id } }) => matchesRule(match, model.toLowerCase(), model));
  if (found) return found;
  for (const other of others) {
    const vendor = table().vendors.find(({ id }) => id === other);
    const found = vendor && findVendorModel(vendor, model);
    if (found) return found;
  }
  return undefined;
}

/** @param name in lower case @param written the original name, for regular expressions */
function matchesRule(rule: NameRule, name: string, written: string): boolean {
  if ("or" in rule) return rule.or.some((each) => matchesRule(each, name, written));
  if ("and" in rule) return rule.and.every((each) => matchesRule(each, name, written));
  if ("equals" in rule) return name === rule.equals.toLowerCase();
  if ("starts_with" in rule) return name.startsWith(rule.starts_with.toLowerCase());
  if ("ends_with" in rule) return name.endsWith(rule.ends_with.toLowerCase());
  if ("contains" in rule) return name.includes(rule.contains.toLowerCase());
  return new RegExp(rule.regex).test(written);
}

/** Reports whether a rule names exactly this model, with or without a date. */
function isExactMatch(model: string, id: string, match: NameRule | undefined): boolean {
  const bare = undatedName(model);
  return [model, bare].some((name) => name === id.toLowerCase() || (match && matchesExactly(match, name)));
}

function matchesExactly(rule: NameRule, name: string): boolean {
  if ("equals" in rule) return rule.equals.toLowerCase() === name;
  if ("regex" in rule) return /^\^.*\$$/.test(rule.regex) && new RegExp(rule.regex).test(name);
  return "or" in rule && rule.or.some((each) => matchesExactly(each, name));
}

function genaiPrice(rates: GenaiRates): Price {
  const base: Rates = {};
  const above = new Map<number, Rates>();
  for (const [unit, value] of Object.entries(rates)) {
    const name = GENAI_RATES[unit];
    if (name === undefined || value === undefined) continue;
    base[name] = typeof value === "number" ? value : value.base;
    if (typeof value === "number") continue;
    for (const { start, price } of value.tiers) above.set(start, { ...above.get(start), [name]: price });
  }
  const steps = [...above].map(([tokens, higher]) => ({ tokens, ...higher }));
  const [searches, requests] = [rates["web_searches_kcount"], rates["requests_kcount"]];
  return {
    ...base,
    ...(steps.length > 0 ? { above: steps } : {}),
    // Only models that search have a price for each request, which includes the searches.
    ...(typeof requests === "number" ? { request: perUnit(requests), web_search: 0 } : {}),
    ...(typeof searches === "number" ? { web_search: perUnit(searches) } : {}),
  };
}

/** Converts a price per thousand. */
const perUnit = (thousand: number): number => Math.round(thousand * 1e6) / 1e9;

function validityOf(constraint: GenaiConstraint | undefined): Omit<DatedPrice, "price"> {
  if (!constraint) return {};
  if (constraint.type === "start_date") return { from: Date.parse(constraint.start_date) };
  return { daily: { start: timeOfDay(constraint.start_time), end: timeOfDay(constraint.end_time) } };
}

/** Returns the milliseconds of a time like `16:30:00Z`. */
const timeOfDay = (text: string): number => Date.parse(`1970-01-01T${text}`);
