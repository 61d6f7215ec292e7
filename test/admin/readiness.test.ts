import t from "tap";
import { readinessProblems, UNKNOWN_STATE } from "../../src/admin/readiness.ts";

t.test("an unhealthy store is reported with the name of its setting, without an address", async (t) => {
  const sqlite = { store: { ledger: "/data/secret.db" } } as Parameters<typeof readinessProblems>[1];
  const postgres = { store: { ledger: "", postgres: { host: "secret" } } } as unknown as Parameters<
    typeof readinessProblems
  >[1];
  t.same(readinessProblems({ gateway: "ok", store: "ok", limits: "ok" }, postgres), []);
  t.match(readinessProblems({ store: "waiting" }, sqlite), [/for the file of store: ledger, or/]);
  const both = readinessProblems({ store: "waiting", limits: "apart" }, postgres);
  t.match(both, [/PostgreSQL \(store: ledger\)/, /Redis \(store: limits\)/]);
  t.match(readinessProblems({ store: "ok", limits: "twice" }, sqlite), [/^another gateway uses the same store/]);
  t.notMatch(both.join(), /secret/);
});

t.test("missing workers are reported", async (t) => {
  const config = { store: { ledger: "" } } as Parameters<typeof readinessProblems>[1];
  const parts = { gateway: "ok", store: "ok", limits: "ok" };
  t.same(readinessProblems(parts, config, { wanted: 2, up: 2 }), []);
  t.match(readinessProblems(parts, config, { wanted: 4, up: 3 }), [/^3 of 4 workers serve/]);
  t.match(readinessProblems({ ...parts, store: UNKNOWN_STATE, limits: UNKNOWN_STATE }, config, { wanted: 2, up: 0 }), [
    /^no worker serves/,
  ]);
});
