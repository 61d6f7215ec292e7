import type { Attempt, Marketplace } from "model-gateway";
import { type LedgerEntry, minimumCost, totalCost, type Usage } from "model-gateway/store";

/** Finds a model's price at a provider. */
type Prices = Pick<Marketplace, "pricesAt">;
type AttemptTarget = Attempt["target"];

/**
 * Returns the cost of usage at the terms in force. Where terms or amounts are unknown, or only partly known, it is assumed.
 * @param target undefined: no provider was called
 */
export function priceUsage(
  target: AttemptTarget | undefined,
  time: number,
  usage: Usage,
  prices: Prices,
): Pick<LedgerEntry, "cost" | "price" | "usage" | "assumedCost"> {
  const terms = target && priceTerms(target, usage.model, time, prices);
  const priced =
    terms && isPriceable(usage, terms)
      ? totalCost(usage, terms, (model) => priceTerms(target, model, time, prices))
      : undefined;
  if (!terms || !priced) return { assumedCost: assumedCost(usage, target, time) };
  const { cost, besides } = priced;
  return besides ? { cost, price: terms.version, usage: { ...usage, besides } } : { cost, price: terms.version };
}

/**
 * Returns the minimum cost of unpriced usage: the provider's own figure, or the part that has a price, at the requested
 * model's price. In whole nano-dollars, as rows have no others.
 */
function assumedCost(usage: Usage, target: AttemptTarget | undefined, time: number): number {
  const terms = target?.prices?.versionAt(time);
  return Math.round(Math.max(usage.providerCost ?? 0, terms ? minimumCost(usage, terms) : 0));
}

/** Reports whether usage has any tokens: some responses report zeros for work that was not done. */
export const hasTokens = ({ in: input, out }: Usage): boolean => (input.total ?? 0) + (out.total ?? 0) > 0;

/** Reports whether usage has token counts: some vendors report the cost in a unit of their own, and no tokens. */
export const hasCounts = ({ in: input, out }: Usage): boolean => input.total !== undefined || out.total !== undefined;

function priceTerms(
  { provider, model, prices: own }: AttemptTarget,
  served: string | undefined,
  time: number,
  prices: Prices,
) {
  const list = served === undefined || served === model ? own : prices.pricesAt(provider, served);
  return list?.versionAt(time);
}

const isPriceable = (usage: Usage, { price }: NonNullable<ReturnType<typeof priceTerms>>): boolean =>
  hasCounts(usage) || price.request !== undefined || (usage.images !== undefined && price.image !== undefined);
