import type { Problem } from "../config/problems.ts";
import type { Config, ConfiguredModel } from "../config/types.ts";
import { missingRate, type Price } from "../core/price.ts";
import { Catalogue } from "../prices/catalogue.ts";

/** USD per million input tokens: no model costs more, but a price for each thousand or each token looks like that. */
const HIGHEST_INPUT = 1000;

/** Abilities of models whose answers are no text. */
const TEXTLESS: ReadonlySet<string> = new Set(["embeddings", "images"]);

/**
 * Returns the rate that a price of one's own lacks for a model's texts: `input` or `output`.
 * @param can the model's abilities
 */
export const missingTextRate = (price: Price, can: readonly string[]): "input" | "output" | undefined =>
  can.some((ability) => TEXTLESS.has(ability)) ? undefined : missingRate(price);

/** Returns warnings for targets whose price is unknown, incomplete, guessed from a model with a similar name, or in another unit. */
export async function priceWarnings({ models, providers }: Config): Promise<Problem[]> {
  const catalogue = await Catalogue.for(providers);
  const byName = new Map(providers.map((provider) => [provider.name, provider]));
  return models.flatMap((model) =>
    model.targets.flatMap((target) => targetPriceWarnings(model, target, catalogue, byName)),
  );
}

function targetPriceWarnings(
  { id, place, can }: ConfiguredModel,
  { provider: name, model, price }: ConfiguredModel["targets"][number],
  catalogue: Catalogue,
  providers: ReadonlyMap<string, Config["providers"][number]>,
): Problem[] {
  const warn = (message: string): Problem[] => [{ ...place, message, frame: "", severity: "warning" }];
  if (price?.input !== undefined && price.input > HIGHEST_INPUT)
    return warn(
      `${name}:${model} costs $${price.input} per million input tokens; prices are in USD per million tokens, so lower it if that is no such price`,
    );
  const provider = providers.get(name);
  if (!provider) return [];
  const { prices, can: known } = catalogue.find(provider, model);
  const missing = price && missingTextRate(price, can ?? known?.value ?? []);
  if (missing)
    return warn(
      `the price of ${name}:${model} has no ${missing}, so the cost of its answers is unknown; add ${missing} to the price, or 0 if it costs nothing`,
    );
  if (price) return [];
  if (prices && !prices.guessed) return [];
  return warn(
    prices
      ? `the price of ${name}:${model} is guessed from a model with a similar name; give the model "${id}" a price if it differs`
      : `the price of ${name}:${model} is unknown, so its cost is not counted; give the model "${id}" a price`,
  );
}
