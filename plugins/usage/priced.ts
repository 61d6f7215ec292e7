import type { Attempt, Marketplace } from "model-gateway";
import {
  besidesOf,
  cost,
  costAt,
  type LedgerEntry,
  type PriceVersion,
  type Usage,
  withoutRequest,
} from "model-gateway/store";

/** Finds what a model costs at a provider. */
type Prices = Pick<Marketplace, "pricesAt">;
type AskedTarget = Attempt["target"];
type RunBesides = NonNullable<Usage["besides"]>[number];

/** What usage costs at terms that were in force; nothing where nobody knows them, or not of all, or how much it was. */
export function priced(
  { target }: Attempt,
  time: number,
  usage: Usage,
  prices: Prices,
): Pick<LedgerEntry, "cost" | "price" | "usage"> {
  const terms = termsOf(target, usage.model, time, prices);
  const nano = terms && isKnown(usage, terms) ? costAt(usage, terms) : undefined;
  if (terms === undefined || nano === undefined) return {};
  if (!usage.besides) return { cost: nano, price: terms.version };
  let sum = nano;
  const besides: RunBesides[] = [];
  for (const each of usage.besides) {
    const own = each.model === undefined ? terms : termsOf(target, each.model, time, prices);
    const more = own && costAt(besidesOf(each, usage), withoutRequest(own));
    if (own === undefined || more === undefined) return {};
    sum += more;
    besides.push(own === terms ? each : { ...each, price: own.version });
  }
  return { cost: sum, price: terms.version, usage: { ...usage, besides } };
}

/** What usage without a price costs at least: what the provider says, or what of it has a price, at the model's that was asked. */
export function floorOf(usage: Usage, target: AskedTarget | undefined, time: number): number {
  const terms = target?.prices?.at(time);
  if (!terms) return usage.providerCost ?? 0;
  const more = (usage.besides ?? []).map((each) => cost(besidesOf(each, usage), withoutRequest(terms).price));
  return Math.max(usage.providerCost ?? 0, cost(usage, terms.price) + more.reduce((all, each) => all + each, 0));
}

/** Tokens of usage, with what the vendor ran besides. */
export const tokensOf = ({ in: input, out, besides = [] }: Usage): number =>
  [{ in: input, out }, ...besides].reduce((all, each) => all + (each.in.total ?? 0) + (each.out.total ?? 0), 0);

/** Some vendors tell what an answer cost in a measure of their own, and no tokens. */
export const counts = ({ in: input, out }: Usage): boolean => input.total !== undefined || out.total !== undefined;

function termsOf(
  { provider, model, prices: own }: AskedTarget,
  served: string | undefined,
  time: number,
  prices: Prices,
): PriceVersion | undefined {
  const list = served === undefined || served === model ? own : prices.pricesAt(provider, served);
  return list?.at(time);
}

const isKnown = (usage: Usage, { price }: PriceVersion): boolean =>
  counts(usage) || price.request !== undefined || (usage.images !== undefined && price.image !== undefined);
