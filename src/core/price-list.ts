import { createHash } from "node:crypto";
import { cost, isPriced, type Price } from "./price.ts";
import type { Usage } from "./usage.ts";

/** Where a price comes from that the operator wrote, and that of the built-in provider. */
export const OWN = "gateway.yaml";
export const DEMO = "demo";

/** Terms that rows of the ledger name. */
export interface PriceVersion {
  /** Names the terms: 12 hex digits of what they are, so that the same terms always have the same name. */
  readonly version: string;
  readonly price: Price;
  /** Where they come from: gateway.yaml, or a public table and its version. */
  readonly source: string;
}

/** Terms and when they hold. */
export interface DatedPrice {
  readonly price: Price;
  /** Unix milliseconds from which on. */
  readonly from?: number;
  /** Milliseconds of a day in UTC between which alone; the end is outside. */
  readonly daily?: { readonly start: number; readonly end: number };
}

type Dated = Omit<DatedPrice, "price"> & { readonly terms: PriceVersion };

/** What usage costs at terms, in integer nano-dollars; undefined where they do not know what all of it costs. */
function costAt(usage: Usage, { price, source }: PriceVersion): number | undefined {
  if (!isPriced(usage, price, source !== OWN && source !== DEMO)) return undefined;
  return cost(usage, price);
}

/** What a vendor ran beside an answer. */
type RunBesides = NonNullable<Usage["besides"]>[number];

/**
 * What usage costs with what the vendor ran besides, each part at its model's terms; undefined where these do not know what all of
 * it costs.
 * @returns `besides` names the terms of parts that have others than the answer
 */
export function totalCost(
  usage: Usage,
  terms: PriceVersion,
  termsOf: (model: string) => PriceVersion | undefined,
): { cost: number; besides?: RunBesides[] } | undefined {
  let sum = costAt(usage, terms);
  if (!usage.besides || sum === undefined) return sum === undefined ? undefined : { cost: sum };
  const besides: RunBesides[] = [];
  for (const each of usage.besides) {
    const own = each.model === undefined ? terms : termsOf(each.model);
    const more = own && costBeside(each, usage, own);
    if (own === undefined || more === undefined) return undefined;
    sum += more;
    besides.push(own === terms ? each : { ...each, price: own.version });
  }
  return { cost: sum, besides };
}

/** What one part costs that was run beside an answer; undefined as in `costAt`. */
export const costBeside = (part: Partial<Usage>, usage: Usage, terms: PriceVersion): number | undefined =>
  costAt(besidesOf(part, usage), withoutRequest(terms));

/** What usage costs at least, with what the vendor ran besides: of what has no price, nothing. */
export const leastCost = (usage: Usage, terms: PriceVersion): number =>
  (usage.besides ?? []).reduce(
    (sum, each) => sum + cost(besidesOf(each, usage), withoutRequest(terms).price),
    cost(usage, terms.price),
  );

/** It is reckoned in the tier of the answer. */
const besidesOf = (part: Partial<Usage>, { tier }: Usage): Usage => ({
  ...{ in: part.in ?? {}, out: part.out ?? {}, raw: undefined },
  ...(part.drawn ? { drawn: part.drawn } : {}),
  ...(part.serverTools ? { serverTools: part.serverTools } : {}),
  ...(tier === undefined ? {} : { tier }),
});

/** What each request costs is charged once, with the answer. */
function withoutRequest(terms: PriceVersion): PriceVersion {
  if (terms.price.request === undefined) return terms;
  const { request: _, ...price } = terms.price;
  return { ...terms, price };
}

const DAY = 86_400_000;
const DIGITS = 12;

/** The name of terms. */
export function versionOf(price: Price): string {
  return createHash("sha256").update(canonical(price)).digest("hex").slice(0, DIGITS);
}

/** JSON with the names of members in order, so that equal terms are equal texts. */
function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const members = Object.entries(value).filter(([, member]) => member !== undefined);
  members.sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${canonical(member)}`).join(",")}}`;
}

/** What a target costs, now and at other times. */
export class PriceList {
  private readonly dated: readonly Dated[];
  /** The only terms there are, which hold always. */
  private readonly only: PriceVersion | undefined;

  /** @param prices of those that hold at a time the last one counts */
  constructor(
    prices: readonly DatedPrice[],
    readonly source: string,
    /** The model's name was only like one that has this price. */
    readonly guessed = false,
  ) {
    this.dated = prices.map(({ price, ...when }) => ({ ...when, terms: { version: versionOf(price), price, source } }));
    const [only] = this.dated;
    if (this.dated.length === 1 && only?.from === undefined && only?.daily === undefined) this.only = only?.terms;
  }

  /** The terms in force. @param time Unix milliseconds; undefined where there are none yet */
  at(time: number): PriceVersion | undefined {
    if (this.only) return this.only;
    for (let n = this.dated.length - 1; n >= 0; n--) {
      const { from, daily, terms } = this.dated[n] as Dated;
      if (from !== undefined && time < from) continue;
      if (daily !== undefined && !within(time % DAY, daily)) continue;
      return terms;
    }
    return undefined;
  }

  /** All of them, whenever they hold. */
  get all(): readonly PriceVersion[] {
    return this.dated.map(({ terms }) => terms);
  }
}

/** A span may pass midnight. */
const within = (time: number, { start, end }: { start: number; end: number }): boolean =>
  start <= end ? start <= time && time < end : time >= start || time < end;
