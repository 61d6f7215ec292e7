import { join } from "node:path";
import { setTimeout as after } from "node:timers/promises";
import t from "tap";
import { openStores } from "../../src/store/open.ts";
import { OtherGatewayWatch } from "../../src/store/other-gateways.ts";
import { folderFor } from "../support/folder.ts";
import { plainEntry } from "../support/plain-entry.ts";
import { until } from "../support/until.ts";

t.test(
  "another gateway is reported once when it was seen twice, where there is a limit, and once when it has gone",
  async (t) => {
    let [there, limited] = [false, true];
    const told: boolean[] = [];
    const others = new OtherGatewayWatch(
      () => there,
      async () => limited,
      (twice) => told.push(twice),
      5,
    );
    t.teardown(() => others.stop());
    await after(40);
    t.same([told, others.isCountedTwice], [[], false]);
    there = true;
    await until(() => others.isCountedTwice, "it to be told");
    await after(40);
    there = false;
    await until(() => !others.isCountedTwice, "its end to be told");
    t.same(told, [true, false]);
    [there, limited] = [true, false];
    await after(40);
    t.same(told, [true, false], "without limits nothing is counted");
  },
);

t.test("a ledger in a file is shared with other writers, and is not with those that have closed it", async (t) => {
  const path = join(folderFor(t), "gateway.db");
  const [one, other] = [openStores(path, [], () => {}), openStores(path, [], () => {})];
  t.teardown(() => one.close());
  t.equal(one.ledger.isShared(), false, "nothing was written");
  other.ledger.append(plainEntry(Date.now()));
  other.ledger.persist();
  t.equal(one.ledger.isShared(), true);
  t.equal(one.ledger.isShared(process.ppid), false, "workers are one gateway");
  await other.close();
  t.equal(one.ledger.isShared(), false);
});
