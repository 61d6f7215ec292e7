import { mkdirSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { createFirstKey } from "../../src/cli/first-key.ts";
import type { Config } from "../../src/config/types.ts";
import { connectStores, openStores } from "../../src/store/open.ts";
import { placeOf, startPostgres } from "../support/postgres.ts";

t.test("a first key is created if there is none, and is in the audit trail", async (t) => {
  const stores = openStores(":memory:", [], () => {});
  t.teardown(() => stores.close());
  const key = (await createFirstKey(stores, () => {})) ?? "";
  t.equal(stores.keys.find(key)?.name, "first");
  t.equal(await createFirstKey(stores, () => {}), undefined);
  const entries = await stores.audit.list(10);
  t.match(entries, [{ who: /^cli:./, action: "keys.create", subject: "first", detail: {} }]);
  t.equal(entries.length, 1);
});

t.test(
  "a first key that the audit trail cannot record is shown with a notice, because there is no other",
  async (t) => {
    const stores = openStores(":memory:", [], () => {});
    t.teardown(() => stores.close());
    const audit = Object.assign(Object.create(stores.audit), {
      add: () => Promise.reject(new Error("the disk is full")),
    });
    const told: string[] = [];
    t.match(await createFirstKey({ keys: stores.keys, audit }, (line) => void told.push(line)), /^gw_/);
    t.match(told, [/missing in the audit trail: the disk is full/]);
  },
);

t.test("an empty database beside a file with keys gets none, so that the file can still be imported", async (t) => {
  const server = await startPostgres(t);
  if (!server) return;
  const folder = t.testdir({});
  mkdirSync(join(folder, "data"));
  const old = openStores(join(folder, "data", "gateway.db"), [], () => {});
  await old.keys.create({ name: "theirs" });
  await old.close();
  const postgres = { ...placeOf(await server.database()), journal: join(folder, "journal") };
  const store = { ledger: "postgres", postgres } as unknown as Config["store"];
  const stores = await connectStores(store, [], () => {});
  t.teardown(() => stores.close());
  t.equal(await createFirstKey(stores, () => {}, { file: join(folder, "gateway.yaml"), store }), undefined);
  t.same(await stores.keys.list(), []);
  t.match(await createFirstKey(stores, () => {}, { file: join(folder, "sub", "gateway.yaml"), store }), /^gw_/);
});
