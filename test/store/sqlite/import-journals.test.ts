import t from "tap";
import type { UsageRow } from "../../../src/store/ledger-row.ts";
import { SqliteDatabase } from "../../../src/store/sqlite/database.ts";
import { importJournals } from "../../../src/store/sqlite/import-journals.ts";
import { SqliteLedger } from "../../../src/store/sqlite/ledger.ts";
import { SqliteObjects } from "../../../src/store/sqlite/objects.ts";
import { pruneSqlite } from "../../../src/store/sqlite/pruning.ts";

const row = (id: string, outcome: string): UsageRow => ({
  kind: ["k", "m", "p:m", "wire", "generate", 200, outcome, 0, "none", ""],
  values: [id, 1, 1, 1, 1, null, null, null, null, null, null, null],
});

t.test("rows and objects of journals are imported into a store, each once", async (t) => {
  const database = new SqliteDatabase(":memory:");
  t.teardown(() => database.close());
  const journaled = {
    ended: [row("a", "completed")],
    open: [row("b", "interrupted")],
    objects: [{ id: "file-1", provider: "up", key: "k", time: 1 }],
  };
  await importJournals(database, journaled);
  await importJournals(database, journaled);
  const entries = await new SqliteLedger(database).recent(10);
  t.same(entries.map(({ id, outcome }) => [id, outcome]).sort(), [
    ["a", "completed"],
    ["b", "interrupted"],
  ]);
  t.equal(new SqliteObjects(database).find("file-1").length, 1);
});

t.test("rows that have been deleted since they were fed are not imported again", async (t) => {
  const database = new SqliteDatabase(":memory:");
  t.teardown(() => database.close());
  const place = { journal: "1-2-3", from: 0, to: 10 };
  const journaled = { ended: [{ ...row("a", "completed"), place }], open: [], objects: [] };
  await importJournals(database, journaled);
  for await (const _ of pruneSqlite(database, 86_400_000, { rows: 10, pause: 0 }));
  await importJournals(database, journaled);
  t.match(await new SqliteLedger(database).sums({ by: [] }), [{ requests: 1 }]);
});

t.test("journals with more rows than a ledger buffers are imported completely", async (t) => {
  const database = new SqliteDatabase(":memory:");
  t.teardown(() => database.close());
  const many = (length: number, outcome: string) => Array.from({ length }, (_, i) => row(`${outcome} ${i}`, outcome));
  await importJournals(database, { ended: many(100_001, "completed"), open: many(2, "interrupted"), objects: [] });
  t.match(await new SqliteLedger(database).sums({ by: [] }), [{ requests: 100_003 }]);
});
