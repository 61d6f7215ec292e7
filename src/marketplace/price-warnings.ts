import type { Problem } from "../config/problems.ts";
import type { Config, ConfiguredModel } from "../config/types.ts";
import type { Model } from "../core/marketplace.ts";
import { missingRate, type Price } from "../core/price.ts";
import { Catalogue } from "../prices/catalogue.ts";
import { sharedAbilities } from "./marketplace-of.ts";

/** USD per million input tokens: no model costs more, but a price for each thousand or each token looks like that. */
const HIGHEST_INPUT = 1000;

/** What models make instead of text, and what they can read besides it. */
const OTHER_OUTPUT: ReadonlySet<string> = new Set(["embeddings", "images"]);
const OTHER_INPUT: ReadonlySet<string> = new Set(["vision", "audio", "video", "files"]);

/**
 * Returns the rate that a price of one's own lacks for a model's texts, and how to add it; undefined where it lacks none.
 * @param can the abilities that all of the model's targets have
 */
export function missingTextRate(price: Price, can: readonly string[]): { rate: string; remedy: string } | undefined {
  const rate = missingRate(price);
  const makesText =
    !can.some((ability) => OTHER_OUTPUT.has(ability)) ||
    can.some((ability) => !OTHER_OUTPUT.has(ability) && !OTHER_INPUT.has(ability));
  if (rate === undefined || !makesText) return undefined;
  return {
    rate,
    remedy: `add ${rate} to the price, or 0 if it costs nothing, or can: [embeddings] to the model if it answers without text`,
  };
}

/** Returns warnings for targets whose price is unknown, incomplete, guessed from a model with a similar name, or in another unit. */
export async function priceWarnings({ models, providers }: Config): Promise<Problem[]> {
  const catalogue = await Catalogue.for(providers);
  const byName = new Map(providers.map((provider) => [provider.name, provider]));
  return models.flatMap((model) => {
    const found = model.targets.flatMap(({ provider: name, model: theirs }) => {
      const provider = byName.get(name);
      return provider ? [catalogue.find(provider, theirs)] : [];
    });
    const capabilities = model.can ?? sharedAbilities(found);
    return model.targets.flatMap((target) =>
      targetPriceWarnings({ ...model, capabilities }, target, catalogue, byName),
    );
  });
}

function targetPriceWarnings(
  { id, place, capabilities }: ConfiguredModel & Pick<Model, "capabilities">,
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
  const missing = price && missingTextRate(price, capabilities);
  if (missing)
    return warn(
      `the price of ${name}:${model} has no ${missing.rate}, so the cost of its answers is unknown; ${missing.remedy}`,
    );
  if (price) return [];
  const { prices } = catalogue.find(provider, model);
  if (prices && !prices.guessed) return [];
  return warn(
    prices
      ? `the price of ${name}:${model} is guessed from a model with a similar name; give the model "${id}" a price if it differs`
      : `the price of ${name}:${model} is unknown, so its cost is not counted; give the model "${id}" a price`,
  );
}
