import t, { type Test } from "tap";
import { entryToRow } from "../../../src/store/ledger-row.ts";
import { PostgresLedger } from "../../../src/store/postgres/ledger.ts";
import { openPostgres } from "../../../src/store/postgres/migrations.ts";
import {
  listPartitions,
  Partitions,
  partitionOf,
  postgresPrunedBefore,
  prunablePostgres,
  prunePostgres,
} from "../../../src/store/postgres/partitions.ts";
import { entry } from "../../support/ledger-contract.ts";
import { openDatabase, startPostgres } from "../../support/postgres.ts";

const server = await startPostgres(t);

async function open(t: Test) {
  if (!server) throw new Error("no PostgreSQL");
  const database = await openDatabase(t, await server.database(), 4);
  const tables = async () => (await listPartitions(database.query)).map(({ table }) => table);
  return { database, tables, ledger: new PostgresLedger(database, (told) => t.fail(told)) };
}

t.test("a month goes from its first millisecond in UTC to the next one's", async (t) => {
  t.same(partitionOf(Date.UTC(2026, 11, 31, 23, 59)), {
    ...{ from: Date.UTC(2026, 11, 1), to: Date.UTC(2027, 0, 1), table: "usage_2026_12" },
  });
  for (const time of [Number.NaN, -1, 8.64e15, Number.MAX_SAFE_INTEGER]) t.throws(() => partitionOf(time), RangeError);
});

if (server) {
  t.test(
    "tables of months are created when needed, and the next one in advance, by several processes at once",
    async (t) => {
      const { database, tables, ledger } = await open(t);
      const times = [Date.UTC(2025, 0, 5), Date.UTC(2025, 1, 5), Date.UTC(2025, 0, 9)];
      await Promise.all([1, 2, 3, 4].map(() => new Partitions(database).create(times)));
      t.same(await tables(), ["usage_2025_01", "usage_2025_02"]);
      ledger.append(entry({ time: Date.now() }));
      await ledger.flush();
      const now = partitionOf(Date.now());
      t.same((await tables()).slice(-2), [now.table, partitionOf(now.to).table]);
    },
  );

  t.test("whole months are deleted with their tables, days of the last one row by row, and sums stay", async (t) => {
    const { database, tables, ledger } = await open(t);
    for (let day = 0; day < 90; day++)
      for (let i = 0; i < 60; i++) ledger.append(entry({ time: Date.UTC(2026, 0, 1 + day) + i, cost: 1 }));
    await ledger.flush();
    const before = Date.UTC(2026, 2, 10);
    const other = new PostgresLedger(database, (told) => t.fail(told));
    let removed = 0;
    await Promise.all([
      (async () => {
        for await (const rows of prunePostgres(database, before)) removed += rows;
      })(),
      // Who writes meanwhile is not in the way.
      (async () => {
        for (let i = 0; i < 10; i++) {
          other.append(entry({ time: Date.UTC(2026, 2, 20) + i, cost: 1 }));
          await other.flush();
        }
      })(),
    ]);
    t.equal(removed, (31 + 28 + 9) * 60);
    t.match((await tables())[0], "usage_2026_03");
    t.equal(await postgresPrunedBefore(database.query), before);
    t.match(await ledger.sums({ by: [] }), [{ requests: 90 * 60 + 10, cost: 90 * 60 + 10 }]);
    let again = 0;
    for await (const rows of prunePostgres(database, before)) again += rows;
    t.equal(again, 0);
    ledger.append(entry({ time: Date.UTC(2026, 0, 5), cost: 1 }));
    await ledger.flush();
    t.match(await ledger.sums({ by: [] }), [{ requests: 90 * 60 + 11 }], "a late row gets a table again");
  });

  t.test("two gateways that delete the same months at once do not fail", async (t) => {
    const { database, tables, ledger } = await open(t);
    for (const month of [0, 1, 2, 3]) ledger.append(entry({ time: Date.UTC(2026, month, 5), cost: 1 }));
    await ledger.flush();
    const before = Date.UTC(2026, 3, 1);
    const one = prunePostgres(database, before);
    t.same(await one.next(), { value: 1, done: false });
    let others = 0;
    for await (const rows of prunePostgres(database, before)) others += rows;
    let rest = 0;
    for await (const rows of one) rest += rows;
    t.same([others, rest], [2, 0]);
    t.equal((await tables())[0], "usage_2026_04");
  });

  t.test("names of counted usage are deleted with the rows, once no vendor returns them any more", async (t) => {
    const { database, ledger } = await open(t);
    const day = 86_400_000;
    const append = (days: number, once: string) =>
      ledger.append(entry({ time: Date.now() - days * day, once, cost: 1 }));
    for (let i = 0; i < 2_100; i++) append(40, `up old${i}`);
    append(20, "up young");
    append(0, "up now");
    await ledger.flush();
    for await (const _ of prunePostgres(database, Date.now() - day));
    t.same(await database.query("select name from usage_once order by name"), [
      { name: "up now" },
      { name: "up young" },
    ]);
    append(0, "up young");
    await ledger.flush();
    t.match(await ledger.sums({ by: [] }), [{ requests: 2_103, cost: 2_102 }], "it does not count again");
  });

  t.test("positions of journals are deleted a year after their newest row, if no writer uses them", async (t) => {
    const { database, ledger } = await open(t);
    const writer = (await openPostgres(database.settings, 1)).database;
    t.teardown(() => writer.close());
    const day = 86_400_000;
    const append = (journal: string, days: number) => {
      const row = entryToRow(entry({ time: Date.now() - days * day }));
      ledger.appendRow({ ...row, place: { journal, from: days, to: days + 1 } });
    };
    for (const journal of ["old", "in use", "used since"]) append(journal, 400);
    for (const days of [300, 420]) append("used since", days);
    await ledger.flush();
    const prune = async (before: number) => {
      for await (const _ of prunePostgres(database, Date.now() - before * day));
      return (await database.query('select name from journal order by name collate "C"')).map(({ name }) => name);
    };
    t.same(await prune(410), ["in use", "old", "used since"], "those with rows stay");
    await writer.transaction(async (ask) => {
      await ask("select 1 from journal where name = 'in use' for update");
      t.same(await prune(1), ["in use", "used since"]);
    });
    t.same(await prune(1), ["used since"]);
  });

  t.test(
    "it reports the start of the newest row that is a day old, and the day up to which rows were deleted",
    async (t) => {
      const { database, ledger } = await open(t);
      const day = 86_400_000;
      const rows = prunablePostgres(database);
      const now = Date.UTC(2026, 4, 10, 12);
      t.same(await rows.age(now), { newest: 0, pruned: 0 });
      for (const days of [40, 3, 0.5, -300]) ledger.append(entry({ time: now - days * day, cost: 1 }));
      await ledger.flush();
      const before = Date.UTC(2026, 4, 1);
      for await (const _ of rows.prune(before));
      t.same(await rows.age(now), { newest: now - 3 * day, pruned: before });
    },
  );
}
