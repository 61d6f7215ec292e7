import { setTimeout as sleep } from "node:timers/promises";
import t from "tap";
import { Retention } from "../../src/store/retention.ts";
import { prunableSqlite, sqlitePrunedBefore } from "../../src/store/sqlite/pruning.ts";
import { agedLedger, DAY, TODAY } from "../support/aged-ledger.ts";

t.test("rows are kept as long as configured, in whole days", async (t) => {
  const { database, ledger, rows } = await agedLedger(t, 250);
  const warnings: string[] = [];
  const retention = new Retention(prunableSqlite(database), 3 * DAY, (text) => warnings.push(text), 1);
  while (rows() > 4 * 250) await sleep(20);
  await sleep(100);
  await retention.stop(1000);
  t.equal(rows(), 4 * 250, "today's and those of the three days before it");
  t.match(await ledger.sums({ by: [] }), [{ requests: 2500 }]);
  t.same(warnings, []);
});

t.test("a clock that is far ahead deletes one more day with each run, and this is reported", async (t) => {
  const { database, append, ledger, rows } = await agedLedger(t, 3);
  const ahead = Date.now() + 400 * DAY;
  // What comes now has its time from that clock.
  append(ahead);
  await ledger.flush();
  const warnings: string[] = [];
  const look = async () => {
    const before = sqlitePrunedBefore(database);
    const retention = new Retention(
      prunableSqlite(database),
      5 * DAY,
      (text) => warnings.push(text),
      1,
      () => ahead,
    );
    while (sqlitePrunedBefore(database) === before) await sleep(5);
    await retention.stop(1000);
    return sqlitePrunedBefore(database);
  };
  const first = await look();
  t.ok(first <= TODAY - 3 * DAY, "as if it were a day after the newest rows");
  t.equal(rows(), 3 * (1 + (TODAY - first) / DAY) + 1, "younger rows are there");
  t.equal(await look(), first + DAY);
  t.equal(rows(), 3 * ((TODAY - first) / DAY) + 1, "one day is deleted");
  t.equal(warnings.length, 2, "logged once by each");
  t.match(warnings[0], /^The clock is 40[01] days ahead of the newest rows .* go by one day each hour/);
});

t.test("unlimited retention deletes nothing", async (t) => {
  const { database, rows } = await agedLedger(t, 3);
  const retention = new Retention(prunableSqlite(database), 0, t.fail, 1);
  await sleep(50);
  await retention.stop(1000);
  t.equal(rows(), 30);
});

t.test("it stops in the middle, and reports what prevents it from running", async (t) => {
  const { database, rows } = await agedLedger(t, 250);
  const stopped = new Retention(prunableSqlite(database), 2 * DAY, t.fail, 1);
  while (rows() === 2500) await sleep(5);
  await stopped.stop(1000);
  t.ok(rows() > 3 * 250, "there is more");
  const warned = Promise.withResolvers<string>();
  // Its own timer keeps no process alive.
  const alive = setInterval(() => {}, 1000);
  t.teardown(() => clearInterval(alive));
  database.prepare("drop table usage_pruned").run();
  const failing = new Retention(prunableSqlite(database), 2 * DAY, warned.resolve, 1);
  t.match(await warned.promise, /^Rows that are older than store: keep says cannot be taken away: no such table/);
  await failing.stop(1000);
});

t.test("a stop does not wait long for a step that takes long, and what breaks that off is no error", async (t) => {
  const step = Promise.withResolvers<void>();
  const rows = {
    age: async () => ({ newest: Date.now(), pruned: 0 }),
    // biome-ignore lint/correctness/useYield: it ends in its first step
    async *prune(): AsyncGenerator<number> {
      await step.promise;
    },
  };
  const retention = new Retention(rows, DAY, (text) => t.fail(text), 1);
  await sleep(20);
  await t.resolves(retention.stop(50), "it has not ended");
  step.reject(new Error("the store is closed"));
  await sleep(1);
});
