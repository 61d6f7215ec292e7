import { join } from "node:path";
import t from "tap";
import { groupTotals } from "../../src/store/group-totals.ts";
import { openStores } from "../../src/store/open.ts";
import { folderFor } from "../support/folder.ts";
import { plainEntry } from "../support/plain-entry.ts";

t.test("a group counts all below it, and is listed before them", async (t) => {
  const { keys, ledger, close } = openStores(join(folderFor(t), "gateway.db"), [], () => {});
  t.teardown(() => close());
  await keys.create({ name: "a", group: "acme/research" });
  await keys.create({ name: "b", group: "acme-2" });
  await keys.create({ name: "gone", group: "acme" });
  await keys.revoke("gone");
  ledger.append(plainEntry(Date.now(), { cost: 5, group: "acme/research" }));
  t.same(await groupTotals(keys, ledger, { by: ["group"] }, ["new/one"]), [
    { group: "acme", keys: ["a"], requests: 1, cost: 5 },
    { group: "acme/research", keys: ["a"], requests: 1, cost: 5 },
    { group: "acme-2", keys: ["b"], requests: 0, cost: 0 },
    { group: "new", keys: [], requests: 0, cost: 0 },
    { group: "new/one", keys: [], requests: 0, cost: 0 },
  ]);
});
