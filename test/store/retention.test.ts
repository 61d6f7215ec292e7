import { setTimeout as sleep } from "node:timers/promises";
import t from "tap";
import { Retention } from "../../src/store/retention.ts";
import { pruned, STEP } from "../../src/store/sqlite/pruning.ts";
import { agedLedger, DAY } from "../support/aged-ledger.ts";

t.test("rows are kept as long as that is asked, in whole days", async (t) => {
  const { database, ledger, rows } = await agedLedger(t, 250);
  const warnings: string[] = [];
  const retention = new Retention(
    (before) => pruned(database, before, STEP),
    3 * DAY,
    (text) => warnings.push(text),
    1,
  );
  while (rows() > 4 * 250) await sleep(20);
  await sleep(100);
  await retention.stop();
  t.equal(rows(), 4 * 250, "today's and those of the three days before it");
  t.match(await ledger.sums({ by: [] }), [{ requests: 2500 }]);
  t.same(warnings, []);
});

t.test("for good is for good", async (t) => {
  const { database, rows } = await agedLedger(t, 3);
  const retention = new Retention((before) => pruned(database, before, STEP), 0, t.fail, 1);
  await sleep(50);
  await retention.stop();
  t.equal(rows(), 30);
});

t.test("it stops in the middle, and tells what keeps it from its work", async (t) => {
  const { database, rows } = await agedLedger(t, 250);
  const stopped = new Retention((before) => pruned(database, before, STEP), 2 * DAY, t.fail, 1);
  while (rows() === 2500) await sleep(5);
  await stopped.stop();
  t.ok(rows() > 3 * 250, "there is more");
  const warned = Promise.withResolvers<string>();
  // Its own timer keeps no process alive.
  const alive = setInterval(() => {}, 1000);
  t.teardown(() => clearInterval(alive));
  database.prepare("drop table usage_pruned").run();
  const failing = new Retention((before) => pruned(database, before, STEP), 2 * DAY, warned.resolve, 1);
  t.match(await warned.promise, /^Rows that are older than store: keep says cannot be taken away: no such table/);
  await failing.stop();
});
