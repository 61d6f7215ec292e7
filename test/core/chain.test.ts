import t from "tap";
import { Chain } from "../../src/core/chain.ts";
import { GatewayError } from "../../src/core/errors.ts";
import type { Exchange, Head } from "../../src/core/exchange.ts";
import type { Plugin } from "../../src/core/plugin.ts";
import { Frame } from "../../src/wire/frame.ts";

const exchange = {} as Exchange;
const head = {} as Head;
const chainOf = (plugins: Record<string, Plugin>) =>
  new Chain(
    "test",
    Object.entries(plugins).map(([name, plugin]) => ({ name, plugin })),
  );

t.test("plugins run down the list on the way in and up the list on the way out", async (t) => {
  const seen: string[] = [];
  const noting = (name: string): Plugin => ({
    access: () => void seen.push(`${name} access`),
    response: () => {
      seen.push(`${name} response`);
      return () => void seen.push(`${name} stage`);
    },
  });
  const chain = chainOf({ first: noting("first"), second: noting("second") });
  await chain.access(exchange);
  for (const stage of await chain.response(exchange, head)) stage(new Frame("end", Buffer.alloc(0)));
  t.same(seen, ["first access", "second access", "second response", "first response", "second stage", "first stage"]);
});

t.test("a phase in which no plugin waits gives no promise", async (t) => {
  t.equal(chainOf({ a: { route() {} }, b: {} }).route(exchange), undefined);
  const waited: string[] = [];
  const slow = chainOf({ a: { route: async () => void waited.push("a") }, b: { route: () => void waited.push("b") } });
  const later = slow.route(exchange);
  t.type(later, Promise);
  await later;
  t.same(waited, ["a", "b"]);
});

t.test("a throw names plugin and phase, whichever phase it is", async (t) => {
  const bad = () => {
    throw new Error("broken");
  };
  const phases = [
    ["access", (chain: Chain) => chain.access(exchange)],
    ["response", (chain: Chain) => chain.response(exchange, head)],
  ] as const;
  for (const [phase, run] of phases) {
    const attempt = async () => run(chainOf({ mine: { [phase]: bad } }));
    const error = await attempt().catch((thrown) => thrown);
    t.match(error, {
      name: "GatewayError",
      code: "plugin_failed",
      origin: `mine.${phase}`,
      cause: { message: "broken" },
    });
  }
  const [stage] = await chainOf({ mine: { response: () => bad } }).response(exchange, head);
  t.throws(() => stage?.(new Frame("end", Buffer.alloc(0))), { code: "plugin_failed", origin: "mine.response" });
  const later = await Promise.resolve(chainOf({ mine: { access: async () => bad() } }).access(exchange)).catch(
    (thrown) => thrown,
  );
  t.match(later, { code: "plugin_failed", origin: "mine.access" });
});

t.test("a refusal keeps its code and gets its origin once", async (t) => {
  const refusal = new GatewayError("invalid_api_key");
  const chain = chainOf({ auth: { access: () => Promise.reject(refusal) } });
  await t.rejects(Promise.resolve(chain.access(exchange)), { code: "invalid_api_key", origin: "auth.access" });
});

t.test("done runs for every plugin, whatever another one throws", async (t) => {
  const seen: string[] = [];
  const chain = chainOf({
    a: { done: () => Promise.reject(new Error("no")) },
    b: { done: () => void seen.push("b") },
  });
  t.match(await chain.done(exchange), { origin: "a.done" });
  t.same(seen, ["b"]);
});
