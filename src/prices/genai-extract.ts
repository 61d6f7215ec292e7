/** A rule that matches names of models. */
export type NameRule =
  | { readonly or: readonly NameRule[] }
  | { readonly and: readonly NameRule[] }
  | { readonly equals: string }
  | { readonly starts_with: string }
  | { readonly ends_with: string }
  | { readonly contains: string }
  | { readonly regex: string };

/** A number, or a base price and others from given numbers of tokens on; the whole request has the price of its tier. */
type GenaiValue = number | { readonly base: number; readonly tiers: { start: number; price: number }[] };

export type GenaiTable = Readonly<Record<string, GenaiValue | undefined>>;

/** From a day on, or between two times of each day. */
export type GenaiConstraint =
  | { readonly type: "start_date"; readonly start_date: string }
  | { readonly type: "time_of_date"; readonly start_time: string; readonly end_time: string };

/** The data of a model, in the format of genai-prices. */
export interface GenaiModel {
  readonly id: string;
  /** Absent in the extract: only the id itself. */
  readonly match?: NameRule;
  readonly context_window?: number;
  readonly prices: GenaiTable | readonly { readonly constraint?: GenaiConstraint; readonly prices: GenaiTable }[];
}

export interface GenaiVendor {
  readonly id: string;
  /** Vendors whose models this one offers too. */
  readonly fallback_model_providers?: readonly string[];
  readonly models: readonly GenaiModel[];
}

/** The extract as committed: `genai.json`. */
export interface GenaiExtract {
  readonly version: string;
  readonly vendors: readonly GenaiVendor[];
}

/** Extracts what the gateway reads of genai-prices' data, for known vendors: a seventh of the package. */
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

/** Serializes the extract with one model per line, so that diffs of prices are readable. */
export function genaiExtractText({ version, vendors }: GenaiExtract): string {
  const written = vendors.map(({ models, ...vendor }) => {
    const lines = models.map((model) => JSON.stringify(model));
    return `${JSON.stringify(vendor).slice(0, -1)},"models":[\n${lines.join(",\n")}\n]}`;
  });
  return `{"version":${JSON.stringify(version)},"vendors":[\n${written.join(",\n")}\n]}\n`;
}
