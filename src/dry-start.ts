import type { Config } from "./config/types.ts";
import { generationContainer, processContainer } from "./container.ts";
import { Calendar } from "./core/calendar.ts";
import { Levels } from "./core/limits.ts";
import { Log } from "./core/log.ts";
import type { Plugin } from "./core/plugin.ts";
import type { Protocol } from "./core/protocol.ts";
import { Protocols } from "./core/protocols.ts";
import { Redactor } from "./core/redactor.ts";
import { closePlugin, type LoadedPlugin, makePlugin, startPlugin } from "./loader/instances.ts";
import type { PluginError, PluginProblem } from "./loader/problems.ts";
import { registrationProblems } from "./loader/registrations.ts";
import { budgetProblems } from "./marketplace/budgets.ts";
import { buildMarketplace, enabledProviders } from "./marketplace/marketplace-of.ts";
import { servingProblems } from "./mounts.ts";
import { ObjectAccess } from "./objects/objects.ts";
import { Catalogue } from "./prices/catalogue.ts";
import { MemoryLimiter } from "./store/memory-limiter.ts";
import { openStores } from "./store/open.ts";
import { spendSince } from "./store/spend.ts";
import { Envelopes } from "./translation/envelope.ts";
import { Translations } from "./translation/translations.ts";
import { Health } from "./upstream/health.ts";

/** A log that discards everything. */
export class NullLog extends Log {
  debug(): void {}
  info(): void {}
  warn(): void {}
  error(): void {}
  async flush(): Promise<void> {}
}

/**
 * Builds every plugin that a gateway.yaml names, starts it dry and closes it: finds the problems of a start in all plugins at
 * once. Its stores are empty and in memory; no file, listener or provider connection is opened.
 * @param watch runs a plugin's code, and may say which one does not end
 */
export async function dryStartPlugins(
  config: Config,
  { protocolList, classes }: { protocolList: readonly Protocol[]; classes: ReadonlyMap<string, LoadedPlugin> },
  watch: (file: string, run: () => Promise<void>) => Promise<void> = (_, run) => run(),
): Promise<PluginProblem[]> {
  const stores = openStores(":memory:", config.keys, () => {});
  const providers = enabledProviders(config.providers);
  const marketplace = buildMarketplace(config.models, providers, await Catalogue.for(providers.values()));
  const envelopes = new Envelopes(config.envelopes.key);
  const calendar = new Calendar(config.timezone);
  const container = generationContainer(processContainer({ log: new NullLog() }), {
    keys: stores.keys,
    values: stores.keptValues,
    ledger: stores.ledger,
    levels: new Levels(config.limits, calendar),
    limiter: new MemoryLimiter(spendSince(stores.ledger), calendar, () => {}),
    marketplace,
    health: new Health(config.keep, new NullLog()),
    objects: new ObjectAccess(stores.owners, config.share, providers.values(), envelopes.ids, protocolList),
    translations: new Translations(new Protocols(protocolList), envelopes, marketplace, config.share),
    redactor: new Redactor([]),
  });
  const problems: PluginProblem[] = [];
  const plugins = new Map<string, Plugin>();
  for (const [name, { options, place, secrets }] of config.plugins) {
    const known = classes.get(name);
    if (!known) continue;
    const loaded = { ...known, place, secrets };
    try {
      await watch(loaded.file, async () => {
        const plugin = makePlugin(container, loaded, options);
        plugins.set(name, plugin);
        await startPlugin(plugin, loaded, true);
        await closePlugin(plugin, loaded);
      });
    } catch (thrown) {
      problems.push(...(thrown as PluginError).problems);
    }
  }
  await stores.close();
  problems.push(...registrationProblems([...plugins.keys()].map((name) => classes.get(name) as LoadedPlugin)));
  return [...problems, ...servingProblems(config.paths, classes, plugins), ...budgetProblems(config, marketplace)];
}
