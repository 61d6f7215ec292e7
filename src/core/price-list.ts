import { createHash } from "node:crypto";
import { cost, isPriced, type Price } from "./price.ts";
import type { Usage } from "./usage.ts";

/** The source of a price that the operator wrote, and of that of the built-in provider. */
export const OPERATOR_SOURCE = "gateway.yaml";
export const DEMO_SOURCE = "demo";

/** Prices as referenced by ledger rows. */
export interface PriceVersion {
  /** The first 12 hex digits of a hash of the prices, so that equal prices have equal names. */
  readonly version: string;
  readonly price: Price;
  /** Their source: gateway.yaml, or public tables and their versions. */
  readonly source: string;
  /** Where each figure comes from, by its name; absent for prices read from a ledger. */
  readonly sources?: Readonly<Record<string, string>>;
}

/** Prices and when they apply. */
export interface DatedPrice {
  readonly price: Price;
  /** The source of each figure that comes from another table than the rest, by the figure's name. */
  readonly sourceOverrides?: Readonly<Record<string, string>>;
  /** Unix milliseconds from which they apply. */
  readonly from?: number;
  /** The only time of day at which they apply, in milliseconds in UTC; `end` is exclusive. */
  readonly daily?: { readonly start: number; readonly end: number };
}

type DatedTerms = Omit<DatedPrice, "price" | "sourceOverrides"> & { readonly terms: PriceVersion };

/** Returns the cost of usage in integer nano-dollars; undefined where the prices do not cover all of it. */
function costAt(usage: Usage, { price, source }: PriceVersion): number | undefined {
  if (!isPriced(usage, price, source !== OPERATOR_SOURCE && source !== DEMO_SOURCE)) return undefined;
  return cost(usage, price);
}

/** What a vendor ran in addition to a response. */
type AdditionalUsage = NonNullable<Usage["besides"]>[number];

/**
 * Returns the cost of usage with everything that the vendor ran in addition, each part at its model's prices; undefined where
 * these do not cover all of it.
 * @returns `besides` names the prices of parts that differ from the response's
 */
export function totalCost(
  usage: Usage,
  terms: PriceVersion,
  termsOf: (model: string) => PriceVersion | undefined,
): { cost: number; besides?: AdditionalUsage[] } | undefined {
  let sum = costAt(usage, terms);
  if (!usage.besides || sum === undefined) return sum === undefined ? undefined : { cost: sum };
  const besides: AdditionalUsage[] = [];
  for (const each of usage.besides) {
    const own = each.model === undefined ? terms : termsOf(each.model);
    const more = own && additionalCost(each, usage, own);
    if (own === undefined || more === undefined) return undefined;
    sum += more;
    besides.push(own === terms ? each : { ...each, price: own.version });
  }
  return { cost: sum, besides };
}

/** Returns the cost of one part that was run in addition to a response; undefined as in `costAt`. */
export const additionalCost = (part: Partial<Usage>, usage: Usage, terms: PriceVersion): number | undefined =>
  costAt(additionalUsage(part, usage), withoutRequest(terms));

/**
 * Returns the minimum cost of usage, with everything that the vendor ran in addition: parts without a price count as 0, images as
 * the dearest.
 */
export const minimumCost = (usage: Usage, terms: PriceVersion): number =>
  (usage.besides ?? []).reduce(
    (sum, each) => sum + cost(additionalUsage(each, usage), withoutRequest(terms).price),
    cost(usage, terms.price),
  );

/** Returns the part as usage of its own, in the response's tier. */
const additionalUsage = (part: Partial<Usage>, { tier }: Usage): Usage => ({
  ...{ in: part.in ?? {}, out: part.out ?? {}, raw: undefined },
  ...(part.drawn ? { drawn: part.drawn } : {}),
  ...(part.serverTools ? { serverTools: part.serverTools } : {}),
  ...(tier === undefined ? {} : { tier }),
});

/** Returns prices without the charge per request, which is charged once, with the response. */
function withoutRequest(terms: PriceVersion): PriceVersion {
  if (terms.price.request === undefined) return terms;
  const { request: _, ...price } = terms.price;
  return { ...terms, price };
}

const DAY = 86_400_000;
const VERSION_LENGTH = 12;

/** Returns the name of a price's version: a digest of its terms. */
export function priceVersion(price: Price): string {
  return createHash("sha256").update(canonical(price)).digest("hex").slice(0, VERSION_LENGTH);
}

/** Returns JSON with sorted member names, so that equal prices give equal texts. */
function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const members = Object.entries(value).filter(([, member]) => member !== undefined);
  members.sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${canonical(member)}`).join(",")}}`;
}

/** The prices of a target over time. */
export class PriceList {
  private readonly dated: readonly DatedTerms[];
  /** The only price, if it always applies. */
  private readonly only: PriceVersion | undefined;

  /**
   * @param prices of several that apply at a time the last one is used
   * @param source the source of all figures without a source of their own
   */
  constructor(
    prices: readonly DatedPrice[],
    source: string,
    /** The price is that of a model with a similar name. */
    readonly guessed = false,
  ) {
    this.dated = prices.map(({ sourceOverrides, ...dated }) => datedTerms(dated, source, sourceOverrides));
    const [only] = this.dated;
    if (this.dated.length === 1 && only?.from === undefined && only?.daily === undefined) this.only = only?.terms;
  }

  /** Returns the price that applies at a time in Unix milliseconds; undefined if none applies. */
  versionAt(time: number): PriceVersion | undefined {
    if (this.only) return this.only;
    for (let n = this.dated.length - 1; n >= 0; n--) {
      const { from, daily, terms } = this.dated[n] as DatedTerms;
      if (from !== undefined && time < from) continue;
      if (daily !== undefined && !within(time % DAY, daily)) continue;
      return terms;
    }
    return undefined;
  }

  /** All prices, whenever they apply. */
  get all(): readonly PriceVersion[] {
    return this.dated.map(({ terms }) => terms);
  }
}

function datedTerms(
  { price, ...when }: DatedPrice,
  source: string,
  sourceOverrides: DatedPrice["sourceOverrides"] = {},
): DatedTerms {
  const sources = Object.fromEntries(Object.keys(price).map((name) => [name, sourceOverrides[name] ?? source]));
  const all = [...new Set([source, ...Object.values(sourceOverrides)])].join(" with ");
  return { ...when, terms: { version: priceVersion(price), price, source: all, sources } };
}

/** Reports whether a time of day is in a span, which may extend past midnight. */
const within = (time: number, { start, end }: { start: number; end: number }): boolean =>
  start <= end ? start <= time && time < end : time >= start || time < end;
