import t from "tap";
import { inject, injectable } from "tsyringe";
import { buildPlugin } from "../src/container.ts";
import { Log } from "../src/core/log.ts";
import { Marketplace } from "../src/core/marketplace.ts";
import { Options, type Plugin, type PluginClass } from "../src/core/plugin.ts";
import { containerWith } from "./support/container.ts";
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
const generation = (marketplace: Marketplace) => containerWith(log, { marketplace });

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
