import {
  type DatedRates,
  type GenaiExtract,
  type GenaiModel,
  type GenaiRates,
  type GenaiVendor,
  isDated,
  type NameRule,
  type StoredDatedRates,
  type StoredGenaiModel,
  type StoredRates,
} from "./genai-table.ts";

/** Extracts what the gateway reads of genai-prices' data, for known vendors: a small part of the package. */
export function extractGenai(all: readonly GenaiVendor[], version: string, vendors: readonly string[]): GenaiExtract {
  const known = all.filter(({ id }) => vendors.includes(id));
  return {
    version,
    vendors: known.map(({ id, fallback_model_providers: others, models }) => ({
      id,
      ...(others && { fallback_model_providers: others }),
      models: models.map(({ id, match, context_window: context, prices }) => ({
        id,
        ...(match && !isIdAlone(match, id) && { match }),
        ...(context !== undefined && { context_window: context }),
        prices,
      })),
    })),
  };
}

/** Reports whether a rule matches the id and nothing else, as most do. */
function isIdAlone(rule: NameRule, id: string): boolean {
  if ("or" in rule) return rule.or.length > 0 && rule.or.every((each) => isIdAlone(each, id));
  return "equals" in rule && rule.equals === id;
}

/** Serializes the extract as it is stored, with one model per line, so that diffs of prices are readable. */
export function genaiExtractText({ version, vendors }: GenaiExtract): string {
  const names = rateNames(vendors);
  const written = vendors.map(({ models, ...vendor }) => {
    const lines = models.map((model) => JSON.stringify(packModel(model, names)));
    return `${JSON.stringify(vendor).slice(0, -1)},"models":[\n${lines.join(",\n")}\n]}`;
  });
  const head = JSON.stringify({ version, rates: names }).slice(0, -1);
  return `${head},"vendors":[\n${written.join(",\n")}\n]}\n`;
}

function packModel(
  { id, match, context_window: context, prices }: GenaiModel,
  names: readonly string[],
): StoredGenaiModel {
  const rates: StoredGenaiModel[2] = isDated(prices)
    ? { dated: prices.map((each) => packDated(each, names)) }
    : packRates(prices, names);
  return match ? [id, context ?? null, rates, match] : [id, context ?? null, rates];
}

const packDated = ({ constraint, prices }: DatedRates, names: readonly string[]): StoredDatedRates =>
  constraint ? [packRates(prices, names), constraint] : [packRates(prices, names)];

function packRates(rates: GenaiRates, names: readonly string[]): StoredRates {
  const values = names.map((name) => rates[name] ?? null);
  return values.slice(0, values.findLastIndex((value) => value !== null) + 1);
}

/** Returns the names of all rates, those that most models have first. */
function rateNames(vendors: readonly GenaiVendor[]): string[] {
  const counts = new Map<string, number>();
  for (const { models } of vendors)
    for (const { prices } of models)
      for (const rates of isDated(prices) ? prices.map((each) => each.prices) : [prices])
        for (const name of Object.keys(rates)) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts].sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1)).map(([name]) => name);
}
