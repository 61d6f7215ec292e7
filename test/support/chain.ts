import { Chain } from "../../src/core/chain.ts";
import { Exchange, type ExchangeStart } from "../../src/core/exchange.ts";
import type { Plugin } from "../../src/core/plugin.ts";

/** Returns an exchange that has just begun. */
export const startedExchange = (): Exchange =>
  new Exchange({ arrivedAt: performance.now(), time: Date.now() } as ExchangeStart);

/** Returns a chain of plugins, by name and in this order. */
export const chainOf = (plugins: Record<string, Plugin>): Chain =>
  new Chain(
    "test",
    Object.entries(plugins).map(([name, plugin]) => ({ name, plugin })),
  );
