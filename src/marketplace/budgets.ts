import { unlimitedPaths, unsharedLimitsReason } from "../config/limits.ts";
import { warningAt } from "../config/load.ts";
import type { Config } from "../config/types.ts";
import type { Limits } from "../core/limit-kinds.ts";
import { hasHardBudget } from "../core/limits.ts";
import type { Marketplace, Target } from "../core/marketplace.ts";
import { OPERATOR_SOURCE } from "../core/price-list.ts";
import type { PluginProblem } from "../loader/problems.ts";
import { Catalogue } from "../prices/catalogue.ts";
import { buildMarketplace, demoProviders, enabledProviders } from "./marketplace-of.ts";
import { missingTextRate } from "./price-warnings.ts";

/**
 * Returns why the limits of a key created at run time could not be enforced; undefined: they can.
 * @param models that the key may use; undefined: all
 */
export async function limitsProblem(
  {
    paths,
    chains,
    providers,
    models: all,
    store,
    instances,
  }: Pick<Config, "paths" | "chains" | "providers" | "models" | "store" | "instances">,
  { budgets = [] }: Limits,
  models?: readonly string[],
): Promise<string | undefined> {
  const [open] = unlimitedPaths(paths, (use) => chains.get(use) ?? []);
  if (open) return open.message;
  const sharingProblem = unsharedLimitsReason(store, instances);
  if (sharingProblem !== undefined) return sharingProblem;
  if (budgets.length === 0) return undefined;
  const enabled = enabledProviders(providers);
  const marketplace = buildMarketplace(all, enabled, await Catalogue.for(enabled.values()));
  const hard = hasHardBudget(budgets);
  return [...missingFacts({ budgets: [{ hard, ...(models && { models }) }], providers }, marketplace).keys()][0];
}

/**
 * Returns the budgets that could not be enforced, because the price or the maximum output of a model is unknown: one problem per
 * model, at its position in gateway.yaml.
 */
export function budgetProblems(
  config: Pick<Config, "budgets" | "providers" | "file" | "text">,
  marketplace: Marketplace,
): PluginProblem[] {
  return [...missingFacts(config, marketplace)].map(([message, id]) => {
    const { file, line, column, frame } = warningAt(config, { path: ["models", id], key: true, message });
    return { file, line, column, frame, message };
  });
}

/** Returns messages about missing facts of models to which budgets apply, with the models' ids. */
function missingFacts(
  { budgets, providers }: Pick<Config, "budgets" | "providers">,
  marketplace: Marketplace,
): Map<string, string> {
  const free = demoProviders(providers);
  const found = new Map<string, string>();
  for (const { hard, models, provider } of budgets) {
    for (const { id, targets, capabilities } of marketplace.list(models && { id: "", name: "", models }))
      for (const target of targets) {
        const { name } = target.provider;
        if (free.has(name) || (provider !== undefined && provider !== name)) continue;
        const message = missingFact(target, capabilities, hard);
        if (message !== undefined) found.set(message, id);
      }
  }
  return found;
}

/** Returns a message about a fact that a budget needs and a target lacks. */
function missingFact(
  { prices, facts, provider, model, modelId }: Target,
  can: readonly string[],
  hard: boolean,
): string | undefined {
  if (!prices) {
    // With a price the length would be missing next.
    const length = hard && facts?.output === undefined ? ", and with it output: 64k, the longest answer" : "";
    return `a budget needs prices, and the price of ${provider.name}:${model} of the model ${JSON.stringify(modelId)} is unknown; give the model a price, like price: { input: 1.25, output: 10 }${length}; or 0 if it costs nothing`;
  }
  const [own] = prices.all;
  const missing = own?.source === OPERATOR_SOURCE ? missingTextRate(own.price, can) : undefined;
  if (missing)
    return `a budget needs prices, and the price of the model ${JSON.stringify(modelId)} at ${provider.name}:${model} has no ${missing.rate}; ${missing.remedy}`;
  if (hard && prices.all.some(({ price }) => (price.output ?? 0) > 0) && facts?.output === undefined)
    return `a budget needs to know how long answers are at most, and the model ${JSON.stringify(modelId)} does not say it; give it output: 64k, or make the budget soft`;
  return undefined;
}
