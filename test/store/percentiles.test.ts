import t from "tap";
import { Percentiles } from "../../src/store/percentiles.ts";

t.test("percentiles are within 6 % of the exact ones, for any values", async (t) => {
  for (const scale of [0.5, 30, 20_000]) {
    const some = new Percentiles();
    const values = Array.from({ length: 5000 }, (_, i) => scale * (1 + ((i * 7919) % 5000) / 50));
    for (const value of values) some.add(value);
    values.sort((a, b) => a - b);
    const { figures } = some;
    for (const [name, share] of [
      ["p50", 0.5],
      ["p95", 0.95],
      ["p99", 0.99],
    ] as const) {
      const truth = values[Math.ceil(5000 * share) - 1] as number;
      const found = figures?.[name] as number;
      t.ok(Math.abs(found - truth) <= 0.065 * truth + 0.05, `${name} of ${scale}: ${found} for ${truth}`);
    }
    t.equal(figures?.count, 5000);
  }
});

t.test("values beyond all bounds count as the smallest and the largest ones", async (t) => {
  const some = new Percentiles();
  for (const value of [1e-9, 1e300, Number.POSITIVE_INFINITY]) some.add(value);
  const { p50 = 0, p99 = 0, count } = some.figures ?? {};
  t.equal(count, 3);
  t.ok(p50 > 5e9 && p99 === p50 && Number.isFinite(p99), String(p99));
});

t.test("without values, and for invalid times, there are none", async (t) => {
  const none = new Percentiles();
  none.add(0);
  none.add(Number.NaN);
  t.equal(none.figures, undefined);
});
