import { spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdirSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import t, { type Test } from "tap";
import { newId } from "../../src/core/id.ts";
import { JournalFeeder } from "../../src/store/journal/feeder.ts";
import { journalFile, listJournals } from "../../src/store/journal/files.ts";
import { StoreLineConsumer } from "../../src/store/journal/store-line-consumer.ts";
import {
  batchLength,
  insertedJournals,
  JOURNAL_END,
  journalPosition,
  placeOpenRows,
} from "../../src/store/journal-place.ts";
import { entryToRow, USAGE_COLUMNS, type UsageRow } from "../../src/store/ledger-row.ts";
import { type LedgerStore, openLedgerStore } from "../../src/store/ledger-store.ts";
import { openPostgres } from "../../src/store/postgres/migrations.ts";
import type { PostgresSettings } from "../../src/store/postgres/place.ts";
import { folderFor } from "../support/folder.ts";
import { entry } from "../support/ledger-contract.ts";
import { placeOf, startPostgres } from "../support/postgres.ts";

const DAY = 86_400_000;
const TODAY = Math.floor(Date.now() / DAY) * DAY;
const OLD = TODAY - 300 * DAY;
const PRUNED = TODAY - 200 * DAY;
/** Older than any position of a journal. */
const ANCIENT = TODAY - 400 * DAY;
const DEAD = "999999999-1-1";
const server = await startPostgres(t);

/** Lines of new exchanges, all of the same time. */
const lines = (count: number, kind: "begun" | "ended", time = OLD): string =>
  Array.from({ length: count }, () => {
    const { kind: common, values } = entryToRow(entry({ id: newId(time), time, outcome: "interrupted" }));
    return `${JSON.stringify([kind, [common, values]])}\n`;
  }).join("");

/** The last line of each exchange that some lines begin. */
const ended = (begun: string): string => begun.replaceAll('["begun"', '["ended"');

/** A store with a folder of journals, to which processes are as dead as the test says. */
function journalsOf(t: Test, store: LedgerStore) {
  const folder = join(folderFor(t), "journal");
  mkdirSync(folder);
  const leave = (text: string, owner = DEAD, number = 1) => {
    const file = journalFile(folder, owner, number);
    writeFileSync(file, text);
    utimesSync(file, 1, 1);
  };
  const feeder = (owner = "1-1-1", to = store) => new JournalFeeder(folder, owner, new StoreLineConsumer(to));
  return {
    ...{ folder, leave, feeder },
    adopt: async () => {
      await feeder().adopt();
      t.same(listJournals(folder), []);
    },
    prune: async () => {
      for await (const _ of store.prune(PRUNED));
    },
    count: async () => (await store.ledger.sums({ by: [] }))[0]?.requests ?? 0,
  };
}

/** Reads journals in a process that is killed before a commit. @returns whether there were so many commits */
async function readAndDie(at: string | PostgresSettings, folder: string, commit: number): Promise<boolean> {
  const source = new URL("../../src/store/", import.meta.url).href;
  const program = `
    const load = (file) => import(${JSON.stringify(source)} + file);
    const { JournalFeeder } = await load("journal/feeder.ts");
    const { StoreLineConsumer } = await load("journal/store-line-consumer.ts");
    const { openLedgerStore } = await load("ledger-store.ts");
    const store = await openLedgerStore(${JSON.stringify(at)}, false, () => {});
    const { database } = store.ledger;
    const { transaction } = database;
    let commits = 0;
    database.transaction = (...args) => {
      if (++commits === ${commit}) process.kill(process.pid, "SIGKILL");
      return transaction.apply(database, args);
    };
    await new JournalFeeder(${JSON.stringify(folder)}, "1-1-1", new StoreLineConsumer(store)).adopt();
    await store.close();
  `;
  const loader = new URL("../../src/loader/register.js", import.meta.url).href;
  const reader = spawn(process.execPath, ["--import", loader, "--input-type=module", "-e", program], {
    stdio: ["ignore", "ignore", "pipe"],
    timeout: 60_000,
  });
  let stderr = "";
  reader.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  const [, signal] = await once(reader, "close");
  if (signal === null && stderr !== "") throw new Error(stderr);
  return signal === "SIGKILL";
}

function replays(name: string, place: () => Promise<string | PostgresSettings>): void {
  const open = async (t: Test, at?: string | PostgresSettings) => {
    const store = await openLedgerStore(at ?? (await place()), false, (told) => t.fail(told));
    t.teardown(() => store.close());
    return store;
  };

  t.test(`${name}: a journal that comes back after its rows have been deleted counts once`, async (t) => {
    const { folder, leave, adopt, prune, count } = journalsOf(t, await open(t));
    leave(lines(700, "ended") + lines(3, "begun"));
    leave(lines(2, "begun") + lines(2, "ended"), DEAD, 2);
    cpSync(folder, `${folder}.copy`, { recursive: true, preserveTimestamps: true });
    await adopt();
    t.equal(await count(), 707);
    await prune();
    cpSync(`${folder}.copy`, folder, { recursive: true, preserveTimestamps: true });
    await adopt();
    t.equal(await count(), 707);
  });

  t.test(`${name}: rows that were never stored count once, though older ones have been deleted`, async (t) => {
    const { leave, adopt, prune, count } = journalsOf(t, await open(t));
    leave(lines(1, "ended"));
    await adopt();
    await prune();
    const late = lines(2, "ended") + lines(2, "begun");
    leave(late, "999999999-1-2");
    await adopt();
    t.equal(await count(), 5, "of a journal that was away");
    await prune();
    leave(late, "999999999-1-2");
    await adopt();
    t.equal(await count(), 5);
  });

  t.test(`${name}: a process is killed while it feeds its journal: each row counts once`, async (t) => {
    const { leave, feeder, adopt, prune, count } = journalsOf(t, await open(t));
    const [fed, open_] = [lines(400, "ended"), lines(2, "begun")];
    const more = open_ + lines(3, "ended") + ended(open_) + lines(1, "begun");
    leave(fed + more);
    await feeder(DEAD).feed({ number: 1, size: fed.length + open_.length });
    t.equal(await count(), 400);
    await prune();
    await adopt();
    t.equal(await count(), 406);
  });

  t.test(`${name}: a killed reader of a journal continues where it was`, async (t) => {
    const store = await open(t);
    const { folder, leave, feeder, adopt, prune, count } = journalsOf(t, store);
    leave(lines(1400, "ended") + lines(300, "begun"));
    for (let round = 1; listJournals(folder).length > 0; round++) {
      // Stopped after so many writes, like a process that is killed then.
      const killed = feeder();
      let flushes = 0;
      const { flush } = store.ledger;
      store.ledger.flush = async () => {
        await flush.call(store.ledger);
        if (++flushes === round) killed.stop();
      };
      await killed.adopt();
      store.ledger.flush = flush;
      await prune();
      t.same(await store.ledger.recent(1), []);
    }
    t.equal(await count(), 1700);
    leave(lines(1, "ended"), "999999999-1-3");
    await adopt();
    t.equal(await count(), 1701);
  });

  t.test(`${name}: exchanges that an earlier copy of a journal has as open have ended since`, async (t) => {
    const { folder, leave, feeder, adopt, prune, count } = journalsOf(t, await open(t));
    const begun = lines(2, "begun");
    leave(begun + ended(begun));
    await feeder(DEAD).feed({ number: 1, size: statSync(journalFile(folder, DEAD, 1)).size });
    await prune();
    leave(begun);
    await adopt();
    t.equal(await count(), 2);
  });

  t.test(`${name}: several readers of one journal count each row once while rows are being deleted`, async (t) => {
    const at = await place();
    const stores = [await open(t, at), await open(t, at), await open(t, at)];
    const { folder, leave, feeder, prune, count } = journalsOf(t, stores[0] as LedgerStore);
    await prune();
    leave(lines(1500, "ended") + lines(300, "begun"));
    const readers = stores.map((store, n) => feeder(`1-1-${n}`, store).adopt());
    let reading = true;
    const deleting = (async () => {
      while (reading) await prune();
    })();
    await Promise.all(readers);
    reading = false;
    await deleting;
    t.same(listJournals(folder), []);
    t.equal(await count(), 1800);
  });

  t.test(`${name}: a journal whose position has been deleted counts once, with rows of several batches`, async (t) => {
    const { folder, leave, adopt, prune, count } = journalsOf(t, await open(t));
    leave(lines(600, "ended", ANCIENT) + lines(2, "begun", ANCIENT));
    // Its newest row is younger, so its position stays.
    leave(lines(2, "ended", ANCIENT) + lines(1, "ended"), "999999999-1-2");
    cpSync(folder, `${folder}.copy`, { recursive: true, preserveTimestamps: true });
    for (let reading = 1; reading <= 2; reading++) {
      await adopt();
      await prune();
      t.equal(await count(), 605);
      cpSync(`${folder}.copy`, folder, { recursive: true, preserveTimestamps: true });
    }
    leave(lines(1, "ended"), "999999999-1-3");
    await adopt();
    t.equal(await count(), 606, "late rows count, if they are not that old");
  });

  t.test(`${name}: a reader is killed between the parts of a batch with a row that the store refuses`, async (t) => {
    const at = await place();
    const store = await open(t, at);
    const { folder, leave, feeder, prune, count } = journalsOf(t, store);
    // The last one has no month.
    const open_ = lines(7, "begun") + lines(1, "begun", -1);
    leave(lines(5, "ended") + open_);
    for (let commits = 1, killed = true; killed; commits++) {
      killed = await readAndDie(at, folder, commits);
      await prune();
      t.ok(commits < 20);
    }
    cpSync(folder, `${folder}.copy`, { recursive: true, preserveTimestamps: true });
    await feeder().adopt();
    t.same(listJournals(folder), []);
    t.equal(await count(), 12);
    await prune();
    cpSync(`${folder}.copy`, folder, { recursive: true, preserveTimestamps: true });
    await feeder().adopt();
    t.equal(await count(), 12, "also if the last row is the refused one");
  });

  t.test(`${name}: rows that are kept are known by their ids, wherever their journal is`, async (t) => {
    const { leave, adopt, prune, count } = journalsOf(t, await open(t));
    await prune();
    leave(lines(1, "ended"));
    await adopt();
    // Made by hand, under a name that has been used.
    const recent = lines(2, "ended", TODAY);
    leave(recent.slice(0, recent.length / 2));
    await adopt();
    leave(recent, "999999999-1-2");
    await adopt();
    t.equal(await count(), 3);
  });
}

// At the same time: those with PostgreSQL wait for it, and for processes.
t.jobs = 3;
replays("SQLite", async () => join(folderFor(t), "gateway.db"));
if (server)
  replays("PostgreSQL", async () => {
    const settings = placeOf(await server.database());
    await (await openPostgres(settings, 1)).database.close();
    return settings;
  });

const TIME = USAGE_COLUMNS.indexOf("time");
const row = (place?: UsageRow["place"], time = 0): UsageRow => ({
  ...{ kind: [], values: USAGE_COLUMNS.map((_, column) => (column === TIME ? time : 0)) },
  ...(place && { place }),
});

t.test("positions grow with files and bytes, and are exact", async (t) => {
  t.ok(journalPosition(1, 8 * 1024 ** 3 - 1) < journalPosition(2, 0));
  t.equal(journalPosition(999_999, 7) - journalPosition(999_999, 6), 1);
  t.ok(journalPosition(999_999, 8 * 1024 ** 3 - 1) < JOURNAL_END);
});

t.test("open rows of a journal stay in one batch", async (t) => {
  const ended = [row({ journal: "a", from: 1, to: 2 }), row({ journal: "a", from: 2, to: 3 })];
  const open = placeOpenRows([row(), row(), row()], "a", 3, JOURNAL_END);
  t.same(
    open.map(({ place }) => place?.to),
    [JOURNAL_END, JOURNAL_END, JOURNAL_END],
  );
  t.same(placeOpenRows([row()], "a", 3)[0]?.place, { journal: "a", from: 3, to: 3 });
  const rows = [...ended, ...open, ...placeOpenRows([row()], "b", 3), row(), row()];
  t.same(
    [1, 2, 3, 5, 6, 7, 9].map((count) => batchLength(rows, count)),
    [1, 2, 5, 5, 6, 7, 8],
  );
  const last = [row({ journal: "b", from: 3, to: 4 }, 9), row({ journal: "b", from: 4, to: 5 }, 7)];
  const [a, b] = [
    { position: JOURNAL_END, time: 0 },
    { position: 5, time: 9 },
  ];
  t.same(insertedJournals([...rows.slice(0, 6), ...last]), new Map(Object.entries({ a, b })));
  t.equal(batchLength([], 5), 0);
});
