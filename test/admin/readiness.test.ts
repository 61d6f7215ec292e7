import t from "tap";
import { whyNot } from "../../src/admin/readiness.ts";

t.test("what is not well is told with the setting of its store, and no address", async (t) => {
  const sqlite = { store: { ledger: "/data/secret.db" } } as Parameters<typeof whyNot>[1];
  const postgres = { store: { ledger: "", postgres: { host: "secret" } } } as unknown as Parameters<typeof whyNot>[1];
  t.same(whyNot({ gateway: "ok", store: "ok", limits: "ok" }, postgres), []);
  t.match(whyNot({ store: "waiting" }, sqlite), [/for the file of store: ledger, or/]);
  const both = whyNot({ store: "waiting", limits: "apart" }, postgres);
  t.match(both, [/PostgreSQL \(store: ledger\)/, /Redis \(store: limits\)/]);
  t.notMatch(both.join(), /secret/);
});
