import { readFileSync } from "node:fs";
import t from "tap";
import { newId } from "../../../src/core/id.ts";
import { entryToRow } from "../../../src/store/ledger-row.ts";
import { pruneSqlite, sqlitePrunedBefore } from "../../../src/store/sqlite/pruning.ts";
import { agedLedger, DAY, TODAY } from "../../support/aged-ledger.ts";
import { entry } from "../../support/ledger-contract.ts";

t.test("rows before a day are deleted in steps, and their sums stay", async (t) => {
  const { database, ledger, rows } = await agedLedger(t, 30);
  const steps: number[] = [];
  for await (const count of pruneSqlite(database, TODAY - 2 * DAY, { rows: 50, pause: 1 })) steps.push(count);
  t.same(steps, [50, 50, 50, 50, 10]);
  t.equal(rows(), 90);
  t.equal(sqlitePrunedBefore(database), TODAY - 2 * DAY);
  t.match(await ledger.sums({ by: [] }), [{ requests: 300, cost: 300 }]);
});

t.test("what was in deleted rows is nowhere in the file", async (t) => {
  const { database, ledger } = await agedLedger(t, 1);
  const append = (time: number, address: string) => {
    for (let i = 0; i < 300; i++) ledger.append(entry({ id: newId(time), time, address }));
  };
  append(TODAY - 5 * DAY, "2001:db8::dead");
  append(TODAY, "2001:db8::beef");
  await ledger.flush();
  const has = (address: string) => {
    database.prepare("pragma wal_checkpoint(truncate)").get();
    return readFileSync(database.path).includes(address);
  };
  t.ok(has("2001:db8::dead"));
  for await (const _ of pruneSqlite(database, TODAY - DAY, { rows: 50, pause: 1 }));
  t.notOk(has("2001:db8::dead"));
  t.ok(has("2001:db8::beef"));
});

t.test("others may write between two steps", async (t) => {
  const { database, ledger, append, rows } = await agedLedger(t, 10);
  let steps = 0;
  for await (const _ of pruneSqlite(database, TODAY, { rows: 30, pause: 1 })) {
    append(TODAY + ++steps);
    await ledger.flush();
  }
  t.equal(rows(), 10 + steps);
});

t.test(
  "names of counted usage are deleted with the rows, but not before vendors have stopped returning them",
  async (t) => {
    const { database, ledger, append, rows } = await agedLedger(t, 1);
    for (let i = 0; i < 7; i++) append(TODAY - 40 * DAY, `up old${i}`);
    append(TODAY - 20 * DAY, "up young");
    append(TODAY, "up now");
    await ledger.flush();
    t.equal(rows("usage_once"), 9);
    for await (const _ of pruneSqlite(database, TODAY - DAY, { rows: 3, pause: 1 }));
    t.same(database.prepare("select name from usage_once order by name").all(), [
      { name: "up now" },
      { name: "up young" },
    ]);
    append(TODAY, "up young");
    await ledger.flush();
    t.match(await ledger.sums({ by: [] }), [{ requests: 20, cost: 19 }], "it does not count again");
    for await (const _ of pruneSqlite(database, TODAY - 50 * DAY, { rows: 3, pause: 1 }));
    t.equal(rows("usage_once"), 2, "entries older than the deleted rows stay");
  },
);

t.test("positions of journals are deleted a year after their newest row, if that has been deleted too", async (t) => {
  const { database, ledger } = await agedLedger(t, 1);
  const append = (journal: string, days: number) => {
    const time = TODAY - days * DAY;
    const row = entryToRow(entry({ id: newId(time), time }));
    ledger.appendRow({ ...row, place: { journal, from: days, to: days + 1 } });
  };
  for (let i = 0; i < 7; i++) append(`old${i}`, 400);
  append("used since", 400);
  append("used since", 300);
  append("used since", 420);
  append("young", 20);
  await ledger.flush();
  const prune = async (before: number) => {
    for await (const _ of pruneSqlite(database, before, { rows: 3, pause: 1 }));
    return database.prepare("select name from journal order by name desc").all();
  };
  t.equal((await prune(TODAY - 410 * DAY)).length, 9, "those with rows stay");
  t.same(await prune(TODAY - DAY), [{ name: "young" }, { name: "used since" }]);
});
