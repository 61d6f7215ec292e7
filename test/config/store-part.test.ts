import t from "tap";
import { readStorePart } from "../../src/config/store-part.ts";

const KEY = "ci-key-0123456789-abcdef";
const part = (yaml: string, env: NodeJS.ProcessEnv = {}) => readStorePart(yaml, env, "/srv");

t.test("the store and the keys are read despite other mistakes", async (t) => {
  const found = part(
    `providers: { up: { speaks: [nothing] } }\nstore: { ledger: sqlite:ours.db, keep: 30d }\nkeys: { ci: { key: ${KEY}, models: [nowhere], group: acme } }\nplugins: 7\n`,
  );
  t.match(found?.store, { ledger: "/srv/ours.db", limits: "memory" });
  t.match(found?.keys, [{ name: "ci", group: "acme", hash: /^[0-9a-f]{64}$/ }]);
});

t.test("the timezone is read too, and is undefined if invalid", async (t) => {
  t.equal(part("timezone: Asia/Tokyo\nplugins: 7\n")?.timezone, "Asia/Tokyo");
  t.equal(part("plugins: 7\n")?.timezone, "UTC");
  t.match(part("timezone: Asia/Tokio\n"), { timezone: undefined, keys: { length: 0 } });
});

t.test("omitted settings have their default location", async (t) => {
  for (const yaml of ["models: 1", "store:\nkeys:\n", "", "- 1"])
    t.match(part(yaml), { store: { ledger: "/srv/data/gateway.db" }, keys: { length: 0 } }, yaml);
});

t.test("invalid keys are left out, and reported", async (t) => {
  const found = part("store: { ledger: sqlite:a.db }\nkeys: { ci: { key: short } }");
  t.match(found, { store: { ledger: "/srv/a.db" }, keys: { length: 0 }, keysInvalid: true });
  t.equal(part("keys: { ci: { key: $NOT_SET } }")?.keysInvalid, undefined, "one that is off is not wrong");
});

t.test(
  "with an invalid store, or invalid YAML, the result is undefined: another store would be used by mistake",
  async (t) => {
    for (const yaml of [
      "store: { ledger: mysql://x }",
      "store: { ledgers: sqlite:a.db }",
      "store: { ledger: $DATABASE_URL }",
      "store: { ledger: sqlite:a.db\nmodels: {",
      "store: { ledger: sqlite:a.db }\nstore: { ledger: sqlite:b.db }",
    ])
      t.equal(part(yaml), undefined, yaml);
    t.match(part("store: { ledger: $DATABASE_URL }", { DATABASE_URL: "sqlite:b.db" })?.store, { ledger: "/srv/b.db" });
  },
);
