import t from "tap";
import { RecentShares } from "../../src/downstream/recent-shares.ts";

const add = (shares: RecentShares, caller: string, count: number) => {
  for (let i = 0; i < count; i++) shares.add(caller);
};

t.test("a caller's share is its usage above the mean, in this window and the one before", async (t) => {
  const shares = new RecentShares();
  shares.advance(10_000);
  t.equal(shares.share("a"), 0);
  add(shares, "a", 5);
  t.equal(shares.share("a"), 1, "alone it has the average");
  add(shares, "b", 1);
  add(shares, "c", 3);
  t.ok(Math.abs(shares.share("a") - 5 / 3) < 1e-9);
  t.ok(Math.abs(shares.share("b") - 1 / 3) < 1e-9);
  t.equal(shares.share("new"), 0);
  shares.advance(11_000);
  add(shares, "b", 9);
  t.equal(shares.share("b"), (10 * 3) / 18);
  shares.advance(12_000);
  t.equal(shares.share("a"), 0, "its usage two windows ago is forgotten");
  shares.advance(15_000);
  t.equal(shares.share("b"), 0);
});

t.test("callers beyond the maximum number share one entry", async (t) => {
  const shares = new RecentShares();
  shares.advance(10_000);
  for (let i = 0; i < 10_005; i++) shares.add(`caller ${i}`);
  t.equal(shares.share("caller 10004"), 0);
  t.ok(shares.share("") > 4);
});
