import t from "tap";
import { createFirstKey } from "../../src/cli/first-key.ts";
import { openStores } from "../../src/store/open.ts";

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
