import t from "tap";
import { Shares } from "../../src/downstream/shares.ts";

/** So many requests of a caller; the chance of the last one. */
function ask(shares: Shares, caller: string, count: number): number {
  let chance = 0;
  for (let i = 0; i < count; i++) chance = shares.take(caller);
  return chance;
}

t.test("who asks for more than the level has a chance that keeps it there, who asks for less is always within", (t) => {
  const shares = new Shares();
  shares.turn(1000);
  t.equal(ask(shares, "noisy", 1000), Number.POSITIVE_INFINITY, "no level, no limit");
  ask(shares, "quiet", 10);
  t.equal(shares.highest, 1000);
  shares.level = 100;
  shares.turn(2000);
  t.ok(Math.abs(ask(shares, "noisy", 1) - 0.1) < 0.001);
  t.ok(ask(shares, "quiet", 1) >= 1);
  t.ok(ask(shares, "new", 1) >= 1);
  t.end();
});

t.test("what was asked counts for less as time passes, and for nothing after two windows", (t) => {
  const shares = new Shares();
  shares.turn(1000);
  ask(shares, "one", 100);
  shares.turn(2000);
  t.equal(shares.highest, 100);
  shares.turn(2500);
  t.equal(shares.highest, 50);
  ask(shares, "one", 20);
  t.equal(shares.highest, 70);
  shares.turn(5000);
  t.equal(shares.highest, 0);
  t.end();
});

t.test("callers beyond those it remembers share one place", (t) => {
  const shares = new Shares();
  shares.turn(1000);
  for (let i = 0; i < 20_000; i++) shares.take(`caller ${i}`);
  t.equal(shares.highest, 10_000);
  shares.level = 10;
  t.ok(shares.take("caller 3") >= 1, "one that is known has its own");
  t.ok(shares.take("unknown") < 0.01);
  t.end();
});
