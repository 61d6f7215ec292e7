import t from "tap";
import { AlertClaims } from "../../src/store/alert-claims.ts";
import { KeptValues } from "../../src/store/kept-values.ts";
import { SqliteDatabase } from "../../src/store/sqlite/database.ts";

t.test("a store for one gateway always grants the claim", async (t) => {
  const claims = new AlertClaims();
  for (let i = 0; i < 2; i++) t.equal(await claims.claim("ledger", "waiting", 1000, false), true);
  t.same(await claims.unresolved(), []);
});

t.test("alerts that have not ended are remembered over a restart", async (t) => {
  const database = new SqliteDatabase(":memory:");
  t.teardown(() => database.close());
  const restarted = () => new AlertClaims(new KeptValues(database));
  for (const [subject, state] of [
    ["ledger", "waiting"],
    ["target a:b", "bad"],
    ["ledger", "resolved"],
    ["target a:b", "worse"],
  ] as const)
    t.equal(await restarted().claim(subject, state, 1000, false), true);
  t.same(await restarted().unresolved(), ["target a:b"]);
  await restarted().release("target a:b", "worse");
  await restarted().release("ledger", "resolved");
  t.same(await restarted().unresolved(), ["target a:b", "ledger"], "nor those whose end could not be told");
});

t.test("alerts of budgets, which have no end, are not remembered, and leave room for others", async (t) => {
  const database = new SqliteDatabase(":memory:");
  t.teardown(() => database.close());
  const claims = new AlertClaims(new KeptValues(database));
  t.equal(await claims.claim("budget key ci", "080 %", 1000, true), true);
  t.equal(await claims.claim("target a:b", "bad", 1000, false), true);
  t.same(await claims.unresolved(), ["target a:b"]);
});
