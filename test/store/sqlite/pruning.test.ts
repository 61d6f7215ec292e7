import { join } from "node:path";
import t, { type Test } from "tap";
import { newId } from "../../../src/core/id.ts";
import { Database } from "../../../src/store/sqlite/database.ts";
import { SqliteLedger } from "../../../src/store/sqlite/ledger.ts";
import { pruned, prunedBefore } from "../../../src/store/sqlite/pruning.ts";

const DAY = 86_400_000;
const TODAY = Math.floor(Date.now() / DAY) * DAY;

/** A store with some rows on each of the last ten days. */
async function open(t: Test, each: number) {
  const database = new Database(join(t.testdir(), "gateway.db"));
  const ledger = new SqliteLedger(database);
  for (let day = 0; day < 10; day++)
    for (let i = 0; i < each; i++) {
      const time = TODAY - day * DAY;
      ledger.append({
        ...{ id: newId(time), time, key: "k", model: "m", target: "p:m", protocol: "w", operation: "o", status: 200 },
        ...{ outcome: "completed", streaming: false, attempts: [], duration: 1, source: "reported", cost: 1 },
      });
    }
  await ledger.flush();
  t.teardown(async () => {
    await ledger.close();
    database.close();
  });
  const rows = () => Number(database.prepare("select count(*) as rows from usage").get()?.["rows"]);
  return { database, ledger, rows };
}

t.test("rows before a day are taken away some at a time, and what they sum up to stays", async (t) => {
  const { database, ledger, rows } = await open(t, 30);
  const steps: number[] = [];
  for await (const count of pruned(database, TODAY - 2 * DAY, { rows: 50, pause: 1 })) steps.push(count);
  t.same(steps, [50, 50, 50, 50, 10]);
  t.equal(rows(), 90);
  t.equal(prunedBefore(database), TODAY - 2 * DAY);
  t.match(await ledger.sums({ by: [] }), [{ requests: 300, cost: 300 }]);
});

t.test("others may write between two steps", async (t) => {
  const { database, ledger, rows } = await open(t, 10);
  let steps = 0;
  for await (const _ of pruned(database, TODAY, { rows: 30, pause: 1 })) {
    const time = TODAY + ++steps;
    ledger.append({
      ...{ id: newId(time), time, key: "k", model: "m", target: "p:m", protocol: "w", operation: "o", status: 200 },
      ...{ outcome: "completed", streaming: false, attempts: [], duration: 1, source: "reported" },
    });
    await ledger.flush();
  }
  t.equal(rows(), 10 + steps);
});
