import t from "tap";
import { cost } from "../../src/core/usage.ts";

t.test("cached and written tokens are taken out of the input before it is priced", async (t) => {
  const usage = { in: { total: 1000, cached: 600, write: { "5m": 100, "1h": 50 } }, out: { total: 200 }, raw: {} };
  const price = { input: 3, cached: 0.3, cache_write: 3.75, output: 15 };
  t.equal(cost(usage, price), Math.round((250 * 3 + 600 * 0.3 + 150 * 3.75 + 200 * 15) * 1000));
});

t.test("what has no price of its own costs what input costs", async (t) => {
  t.equal(cost({ in: { total: 10, cached: 4 }, out: {}, raw: {} }, { input: 2 }), 20_000);
});

t.test("a provider that reports more cached than read is not paid twice", async (t) => {
  t.equal(cost({ in: { total: 10, cached: 50 }, out: {}, raw: {} }, { input: 2, cached: 1 }), 10_000);
});

t.test("a price per request is added, and no price is no cost", async (t) => {
  t.equal(cost({ in: {}, out: {}, raw: {} }, { request: 0.01 }), 10_000_000);
  t.equal(cost({ in: { total: 5 }, out: { total: 5 }, raw: {} }, {}), 0);
});
