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
type GenaiValue = number | { readonly base: number; readonly tiers: readonly { start: number; price: number }[] };

export type GenaiRates = Readonly<Record<string, GenaiValue | undefined>>;

/** From a day on, or between two times of each day. */
export type GenaiConstraint =
  | { readonly type: "start_date"; readonly start_date: string }
  | { readonly type: "time_of_date"; readonly start_time: string; readonly end_time: string };

export interface DatedRates {
  /** Absent: from the beginning. */
  readonly constraint?: GenaiConstraint;
  readonly prices: GenaiRates;
}

/** The data of a model, in the format of genai-prices. */
export interface GenaiModel {
  readonly id: string;
  /** Absent in the extract: only the id itself. */
  readonly match?: NameRule;
  readonly context_window?: number;
  readonly prices: GenaiRates | readonly DatedRates[];
}

/** Reports whether prices differ by date, or by the time of day. */
export const isDated = (prices: GenaiModel["prices"]): prices is readonly DatedRates[] => Array.isArray(prices);

export interface GenaiVendor {
  readonly id: string;
  /** Vendors whose models this one offers too. */
  readonly fallback_model_providers?: readonly string[];
  readonly models: readonly GenaiModel[];
}

export interface GenaiExtract {
  readonly version: string;
  readonly vendors: readonly GenaiVendor[];
}

/** The extract as it is stored in `genai.json`. */
export interface StoredGenaiExtract {
  readonly version: string;
  /** Names of rates; those of a model are in this order. */
  readonly rates: readonly string[];
  readonly vendors: readonly (Omit<GenaiVendor, "models"> & { readonly models: readonly StoredGenaiModel[] })[];
}

/** Values of the rates; null: none. Those at the end are left out. */
export type StoredRates = readonly (GenaiValue | null)[];

export type StoredDatedRates = readonly [rates: StoredRates, constraint?: GenaiConstraint];

/** A model; null: no context is known. Without `match` only the id itself. */
export type StoredGenaiModel = readonly [
  id: string,
  context: number | null,
  rates: StoredRates | { readonly dated: readonly StoredDatedRates[] },
  match?: NameRule,
];

/** Returns a stored extract in the format of genai-prices. */
export function unpackGenai({ version, rates: names, vendors }: StoredGenaiExtract): GenaiExtract {
  const unpack = (values: StoredRates): GenaiRates =>
    Object.fromEntries(values.flatMap((value, i) => (value === null ? [] : [[names[i], value]])));
  const unpackModel = ([id, context, rates, match]: StoredGenaiModel): GenaiModel => ({
    id,
    ...(match && { match }),
    ...(context !== null && { context_window: context }),
    prices:
      "dated" in rates
        ? rates.dated.map(([values, constraint]) => ({ ...(constraint && { constraint }), prices: unpack(values) }))
        : unpack(rates),
  });
  return { version, vendors: vendors.map(({ models, ...vendor }) => ({ ...vendor, models: models.map(unpackModel) })) };
}
