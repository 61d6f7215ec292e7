import type { Config, ConfiguredModel, ConfiguredTarget } from "../config/types.ts";
import { Marketplace, MODEL_SHAPE, type Model, type Provider, TARGET_SHAPE, type Target } from "../core/marketplace.ts";
import { OPERATOR_SOURCE, PriceList } from "../core/price-list.ts";
import { withShape } from "../core/shape.ts";
import { type Catalogue, type ModelFacts, vendorOf } from "../prices/catalogue.ts";
import { takesCacheMarks, usesThinkingBudget } from "../prices/vendors.ts";

/** A placeholder address of the built-in provider, on which nothing listens. */
const DEMO = new URL("http://demo.invalid");

/** Returns the providers that are on, by name, for lookups only, not for requests. */
export const enabledProviders = (providers: Config["providers"]): Map<string, Provider> =>
  new Map(
    providers.flatMap(({ url, off, ...provider }): [string, Provider][] =>
      off === undefined ? [[provider.name, { ...provider, url: url === "demo:" ? DEMO : url }]] : [],
    ),
  );

/** Returns the names of providers that are the built-in one: it costs nothing, and is reached without the network. */
export const demoProviders = (providers: Config["providers"]): ReadonlySet<string> =>
  new Set(providers.filter(({ url }) => url === "demo:").map(({ name }) => name));

/** Builds the marketplace of a file's models and the providers that are on; facts missing in the file come from the catalogue. */
export function buildMarketplace(
  models: readonly ConfiguredModel[],
  providers: ReadonlyMap<string, Provider>,
  catalogue: Catalogue,
): Marketplace {
  return new Marketplace(models.map((model) => buildModel(model, providers, catalogue)));
}

function buildModel(
  { place: _, ...model }: ConfiguredModel,
  providers: ReadonlyMap<string, Provider>,
  catalogue: Catalogue,
): Model {
  const found: ModelFacts[] = [];
  const targets = model.targets.flatMap((configured) => {
    const provider = providers.get(configured.provider);
    if (!provider) return [];
    const facts = catalogue.find(provider, configured.model);
    found.push(facts);
    return [buildTarget(configured, provider, facts, model)];
  });
  return withShape(MODEL_SHAPE, { ...model, ...commonFacts(model, found), targets });
}

function buildTarget(
  configured: ConfiguredTarget,
  provider: Provider,
  facts: ModelFacts,
  { id: modelId, can }: Pick<ConfiguredModel, "id" | "can">,
): Target {
  const { price, via, ...rest } = configured;
  const prices = price ? new PriceList([{ price }], OPERATOR_SOURCE) : facts.prices;
  const output = rest.facts?.output ?? facts.output?.value;
  const reasons = can?.includes("reasoning") || (facts.can?.value.includes("reasoning") ?? true);
  const vendor = vendorOf(provider);
  const known = {
    ...(takesCacheMarks(vendor, configured.model) ? { cache_marks: true } : {}),
    // A model without thinking is left to `reasons`.
    ...(reasons && usesThinkingBudget(vendor, configured.model) ? { thinking: "budget" as const } : {}),
    ...rest.facts,
    ...(output === undefined ? {} : { output }),
    ...(reasons ? {} : { reasons }),
  };
  return withShape(TARGET_SHAPE, {
    ...rest,
    ...(via === undefined ? {} : { protocolName: via }),
    ...(Object.keys(known).length === 0 ? {} : { facts: known }),
    ...(output === undefined ? {} : { maxOutputTokens: Math.max(output, facts.output?.value ?? 0) }),
    provider,
    modelId,
    ...(prices && { prices }),
  });
}

/** Returns what holds for every target: the smallest limits, and the abilities that all of them have. */
function commonFacts(
  { context, output, can }: Pick<ConfiguredModel, "context" | "output" | "can">,
  found: readonly ModelFacts[],
): Pick<Model, "context" | "output" | "capabilities"> {
  const smallest = (configured: number | undefined, name: "context" | "output") => {
    const known = found.flatMap((facts) => facts[name]?.value ?? []);
    const number = configured ?? (known.length === found.length && known.length > 0 ? Math.min(...known) : undefined);
    return number === undefined ? {} : { [name]: number };
  };
  return {
    ...smallest(context, "context"),
    ...smallest(output, "output"),
    capabilities: can ?? sharedAbilities(found),
  };
}

/** Returns the abilities that all targets of a model have, according to the tables. */
export function sharedAbilities(found: readonly ModelFacts[]): readonly string[] {
  const [first, ...others] = found.map((facts) => facts.can?.value ?? []);
  return first?.filter((ability) => others.every((abilities) => abilities.includes(ability))) ?? [];
}
