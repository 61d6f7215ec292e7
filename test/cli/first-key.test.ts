import t from "tap";
import { firstKeyOf } from "../../src/cli/first-key.ts";
import { openStores } from "../../src/store/open.ts";

t.test("a first key is made where there is none, and is in the audit trail", async (t) => {
  const stores = openStores(":memory:", [], () => {});
  t.teardown(() => stores.close());
  const key = (await firstKeyOf(stores)) ?? "";
  t.equal(stores.keys.find(key)?.name, "first");
  t.equal(await firstKeyOf(stores), undefined);
  const entries = await stores.audit.list(10);
  t.match(entries, [{ who: /^cli:./, action: "keys.create", subject: "first", detail: {} }]);
  t.equal(entries.length, 1);
});
