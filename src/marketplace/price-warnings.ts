import type { Problem } from "../config/problems.ts";
import type { Config, ConfiguredModel } from "../config/types.ts";
import { Catalogue } from "../prices/catalogue.ts";

/** Returns warnings for targets whose price is unknown, or guessed from a model with a similar name. */
export async function priceWarnings({ models, providers }: Config): Promise<Problem[]> {
  const catalogue = await Catalogue.for(providers);
  const byName = new Map(providers.map((provider) => [provider.name, provider]));
  return models.flatMap((model) =>
    model.targets.flatMap((target) => targetPriceWarnings(model, target, catalogue, byName)),
  );
}

function targetPriceWarnings(
  { id, place }: ConfiguredModel,
  { provider: name, model, price }: ConfiguredModel["targets"][number],
  catalogue: Catalogue,
  providers: ReadonlyMap<string, Config["providers"][number]>,
): Problem[] {
  const provider = providers.get(name);
  if (price || !provider) return [];
  const { prices } = catalogue.find(provider, model);
  if (prices && !prices.guessed) return [];
  const message = prices
    ? `the price of ${name}:${model} is guessed from a model with a similar name; give the model "${id}" a price if it differs`
    : `the price of ${name}:${model} is unknown, so its cost is not counted; give the model "${id}" a price`;
  return [{ ...place, message, frame: "", severity: "warning" }];
}
