import t from "tap";
import { inject, injectable } from "tsyringe";
import { buildPlugin, generationContainer, processContainer } from "../src/container.ts";
import type { Levels } from "../src/core/limits.ts";
import { Log } from "../src/core/log.ts";
import { Marketplace } from "../src/core/marketplace.ts";
import { Options, type Plugin, type PluginClass } from "../src/core/plugin.ts";
import { Redactor } from "../src/core/redactor.ts";
import type { ObjectAccess } from "../src/objects/objects.ts";
import type { KeptValues } from "../src/store/kept-values.ts";
import type { Keys } from "../src/store/keys.ts";
import type { Ledger } from "../src/store/ledger.ts";
import type { Limiter } from "../src/store/limiter.ts";
import type { Translations } from "../src/translation/translations.ts";
import type { Health } from "../src/upstream/health.ts";
import { MemoryLog } from "./support/gateway.ts";

@injectable()
class Asking implements Plugin {
  constructor(
    readonly log: Log,
    readonly market: Marketplace,
    @inject(Options) readonly options: { name: string },
  ) {}

  access(): void {}
}

const log = new MemoryLog();
const generation = (marketplace: Marketplace) =>
  generationContainer(processContainer({ log }), {
    keys: {} as Keys,
    values: {} as KeptValues,
    ledger: {} as Ledger,
    levels: {} as Levels,
    limiter: {} as Limiter,
    objects: {} as ObjectAccess,
    health: {} as Health,
    marketplace,
    translations: {} as Translations,
    redactor: new Redactor([]),
  });

t.test("an abstract class is its own token, and options are specific to each instance", async (t) => {
  const market = new Marketplace([]);
  const container = generation(market);
  const [a, b] = ["a", "b"].map((name) => buildPlugin(container, Asking as unknown as PluginClass, { name }) as Asking);
  t.equal(a?.log, log);
  t.equal(a?.market, market);
  t.same([a?.options, b?.options], [{ name: "a" }, { name: "b" }]);
});

t.test("two generations do not share instances", async (t) => {
  const [first, second] = [new Marketplace([]), new Marketplace([])];
  const [one, other] = [generation(first), generation(second)];
  t.equal((buildPlugin(one, Asking as unknown as PluginClass, {}) as Asking).market, first);
  t.equal((buildPlugin(other, Asking as unknown as PluginClass, {}) as Asking).market, second);
});
