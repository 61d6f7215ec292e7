import t from "tap";
import { KnownSums } from "../../../src/store/redis/known-sums.ts";

const sum = (scope: string, start = 0) => ({ name: `day:${start}:${scope}`, scope, per: "day" as const, start });

t.test("sums in use are refreshed for ten minutes, and what is pending counts for one", async (t) => {
  const known = new KnownSums();
  known.set(sum("a"), { spent: 5, pending: 7 }, 1000);
  known.set(sum("b"), { spent: 6, pending: 8 }, 500_000);
  t.same(known.inUse(500_001), ["day:0:a", "day:0:b"]);
  t.same(known.inUse(601_000), ["day:0:b"]);
  t.equal(known.pendingAt("day:0:a", 60_999), 7);
  t.equal(known.pendingAt("day:0:a", 61_000), 0);
  known.refresh("day:0:a", { spent: 9, pending: 2 }, 100_000);
  t.equal(known.pendingAt("day:0:a", 100_001), 2);
  t.same(known.inUse(601_000), ["day:0:b"], "it is not used again by that");
  t.equal(known.pendingAt("day:0:c", 0), 0);
});

t.test("sums that only others use are known, and not refreshed for this process", async (t) => {
  const known = new KnownSums();
  known.refresh("day:7:key:a:b", { spent: 5, pending: 7 }, 1000);
  t.equal(known.pendingAt("day:7:key:a:b", 1001), 7);
  t.same(known.spentSince(7), [["key:a:b", 5]]);
  t.same(known.inUse(1001), []);
});

t.test("what was spent is returned by scope, of periods with the same beginning", async (t) => {
  const known = new KnownSums();
  for (const [scope, start, spent] of [
    ["a", 0, 1],
    ["b", 0, 2],
    ["a", 9, 3],
  ] as const)
    known.set(sum(scope, start), { spent, pending: 0 }, 0);
  t.same(known.spentSince(0), [
    ["a", 1],
    ["b", 2],
  ]);
  t.same(known.spentSince(9), [["a", 3]]);
});

t.test("the sums used last are kept, and the newest of them refreshed", async (t) => {
  const known = new KnownSums();
  for (let i = 0; i < 20_001; i++) known.set(sum(`k${i}`), { spent: 1, pending: 1 }, i);
  t.equal(known.pendingAt("day:0:k0", 0), 0);
  t.equal(known.pendingAt("day:0:k1", 1), 1);
  t.equal(known.inUse(20_000).length, 500);
});
