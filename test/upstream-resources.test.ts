import t from "tap";
import type { Provider } from "../src/core/marketplace.ts";
import { UpstreamResources } from "../src/upstream-resources.ts";
import { providerOf } from "./support/provider.ts";
import { tiny } from "./support/tiny.ts";

const provider = (url: string, secret: string): Provider => ({
  ...providerOf({ url: new URL(url) }),
  credentials: [{ label: "KEY", id: "KEY", secret, account: `p/0/${secret}` }],
});

t.test("connections stay as long as a live generation has the provider with that credential", async (t) => {
  const carried = new UpstreamResources([tiny]);
  const [one, two] = [provider("http://127.0.0.1:1/v1", "one"), provider("http://127.0.0.1:1/v1", "two")];
  const [first, second, third] = [new Map([["p", one]]), new Map([["p", one]]), new Map([["p", two]])];
  carried.hold(first);
  const pool = carried.pools.pool(one.url, "p/0/one");
  carried.hold(second);
  await carried.release(first);
  t.equal(carried.pools.pool(new URL(one.url), "p/0/one"), pool, "the next one has it too");
  carried.hold(third);
  await carried.release(second);
  t.not(carried.pools.pool(new URL(one.url), "p/0/one"), pool, "no generation used it any more");
  await carried.release(third);
});

t.test("the built-in provider has one server, as long as there is one", async (t) => {
  const carried = new UpstreamResources([tiny]);
  const address = await carried.demo("demo");
  t.equal(await carried.demo("demo"), address);
  const providers = new Map([["demo", providerOf({ name: "demo", url: address })]]);
  const next = new Map(providers);
  carried.hold(providers);
  carried.hold(next);
  await carried.release(providers);
  t.equal((await fetch(address)).status, 404);
  await carried.release(next);
  await t.rejects(fetch(address));
});

t.test("the built-in provider is reached without a proxy, on passthrough paths too", async (t) => {
  const before = process.env["http_proxy"];
  process.env["http_proxy"] = "http://127.0.0.1:1";
  const carried = new UpstreamResources([tiny]);
  if (before === undefined) delete process.env["http_proxy"];
  else process.env["http_proxy"] = before;
  const address = await carried.demo("demo");
  t.equal(carried.agents.proxyFor(address), undefined);
  t.match(carried.agents.proxyFor(new URL("http://provider.test")), { host: "127.0.0.1" });
  await carried.release(new Map());
});
