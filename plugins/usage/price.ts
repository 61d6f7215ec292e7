import type { Attempt, Marketplace } from "model-gateway";
import { type LedgerEntry, minimumCost, totalCost, type Usage } from "model-gateway/store";

/** Finds a model's price at a provider. */
type Prices = Pick<Marketplace, "pricesAt">;
type AttemptTarget = Attempt["target"];

/**
 * Adds usage and its cost at the terms in force to an entry. Where terms or amounts are unknown, or only partly known, it is assumed.
 * @param target undefined: no provider was called
 */
export function addUsage(entry: LedgerEntry, usage: Usage, target: AttemptTarget | undefined, prices: Prices): void {
  const { time } = entry;
  entry.usage = usage;
  const terms = target && priceTerms(target, usage.model, time, prices);
  const priced =
    terms && isPriceable(usage, terms)
      ? totalCost(usage, terms, (model) => priceTerms(target, model, time, prices))
      : undefined;
  if (!terms || !priced) {
    entry.assumedCost = assumedCost(usage, target, time);
    return;
  }
  const { cost, besides } = priced;
  entry.cost = cost;
  entry.price = terms.version;
  if (besides) entry.usage = { ...usage, besides };
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
