import { spawn } from "node:child_process";
import { once } from "node:events";
import { renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { DatabaseSync } from "node:sqlite";
import { fileURLToPath } from "node:url";
import t, { type Test } from "tap";
import type { LedgerEntry } from "../../../src/store/ledger.ts";
import { entryToRow } from "../../../src/store/ledger-row.ts";
import { SqliteDatabase } from "../../../src/store/sqlite/database.ts";
import { SqliteLedger } from "../../../src/store/sqlite/ledger.ts";
import { pruneSqlite } from "../../../src/store/sqlite/pruning.ts";
import { entry, ledgerContract } from "../../support/ledger-contract.ts";

const HOUR = 3_600_000;
const DAY = Date.UTC(2026, 10, 20);

function open(t: Test) {
  const path = join(t.testdir(), "gateway.db");
  const database = new SqliteDatabase(path);
  const warnings: string[] = [];
  const ledger = new SqliteLedger(database, (text) => warnings.push(text));
  t.teardown(async () => {
    await ledger.close();
    database.close();
  });
  return { path, database, ledger, warnings };
}

const rows = (database: SqliteDatabase) => database.prepare("select count(*) as rows from usage").get()?.["rows"];

ledgerContract(t, async (t) => {
  const { ledger, database, path } = open(t);
  const second = new SqliteDatabase(path);
  const other = new SqliteLedger(second);
  t.teardown(() => second.close());
  return { ledger, other, rows: () => Number(rows(database)), ask: (text) => database.prepare(text).all() };
});

t.test(
  "nothing is written to a file that was removed or moved: it waits, and for the file too if that comes back",
  async (t) => {
    const { ledger, database, path, warnings } = open(t);
    ledger.append(entry({ time: DAY }));
    await ledger.flush();
    renameSync(path, `${path}.away`);
    ledger.append(entry({ time: DAY + 1 }));
    await t.rejects(ledger.flush(), /gateway\.db was removed, moved or replaced; a restart/);
    t.same([ledger.waiting, rows(database)], [1, 1]);
    writeFileSync(path, "");
    await t.rejects(ledger.flush(), /replaced/, "another file is not the ledger's");
    renameSync(`${path}.away`, path);
    await ledger.flush();
    t.same([ledger.waiting, rows(database)], [0, 2]);
    t.notMatch(warnings, [/lost/]);
  },
);

t.test("nothing is written while the file lacks its WAL: another process would begin a new one", async (t) => {
  const { ledger, database, path } = open(t);
  ledger.append(entry({ time: DAY }));
  await ledger.flush();
  renameSync(`${path}-wal`, `${path}.away`);
  ledger.append(entry({ time: DAY + 1 }));
  await t.rejects(ledger.flush(), /gateway\.db-wal was removed, moved or replaced; a restart/);
  renameSync(`${path}.away`, `${path}-wal`);
  await ledger.flush();
  t.same([ledger.waiting, rows(database)], [0, 2]);
});

t.test("entries wait to be written together and are on disk after flush", async (t) => {
  const { ledger, database, path } = open(t);
  const written = Array.from({ length: 450 }, (_, at) => entry({ time: DAY + at }));
  for (const one of written) ledger.append(one);
  t.equal(ledger.waiting, 450);
  t.equal(rows(database), 0, "append itself writes nothing");
  await ledger.flush();
  t.equal(ledger.waiting, 0);
  const other = new DatabaseSync(path, { readOnly: true });
  t.equal(other.prepare("select count(*) as rows from usage").get()?.["rows"], 450, "visible to every process");
  other.close();
  t.same(await ledger.recent(3), written.slice(-3).reverse(), "newest first");
});

t.test("a process killed between two transactions leaves the place of its journal with the first", async (t) => {
  const { database, ledger } = open(t);
  const journaled = Array.from({ length: 600 }, (_, at) => ({
    ...entryToRow(entry({ time: DAY + at })),
    place: { journal: "1-2-3", from: at, to: at + 1 },
  }));
  for (const row of journaled) ledger.appendRow(row);
  const { transaction } = database;
  let transactions = 0;
  database.transaction = (work) => {
    if (++transactions > 1) throw new Error("killed");
    return transaction.call(database, work) as ReturnType<typeof work>;
  };
  await t.rejects(ledger.flush(), { message: "killed" });
  database.transaction = transaction;
  t.ok(Number(rows(database)) > 0 && Number(rows(database)) < 600);
  for await (const _ of pruneSqlite(database, DAY + 24 * HOUR, { rows: 1000, pause: 0 }));
  const next = new SqliteLedger(database);
  for (const row of journaled) next.appendRow(row);
  await next.flush();
  t.match(await next.sums({ by: [] }), [{ requests: 600, cost: 600_000 }]);
});

t.test("entries are written without a call to flush", async (t) => {
  const { ledger } = open(t);
  ledger.append(entry());
  while (ledger.waiting > 0) await new Promise((resolve) => setTimeout(resolve, 20));
  t.equal(ledger.dropped, 0);
});

t.test("no query reads all rows", async (t) => {
  const { ledger, database } = open(t);
  const asked: string[] = [];
  const prepare = database.prepare.bind(database);
  database.prepare = (sql) => {
    if (/\busage\b/.test(sql)) asked.push(sql);
    return prepare(sql);
  };
  await ledger.recent(1);
  await ledger.sums({ by: ["model"], since: DAY + 1, until: DAY + 5 * HOUR + 1 });
  t.equal(asked.length, 2);
  for (const sql of asked) {
    const steps = prepare(`explain query plan ${sql}`).all();
    const reads = steps.map(({ detail }) => String(detail)).filter((detail) => /\busage\b/.test(detail));
    t.ok(
      reads.length > 0 && reads.every((detail) => /^SEARCH usage USING INDEX .*time>/.test(detail)),
      reads.join("; "),
    );
  }
});

t.test("a full disk is reported, and nothing is missing when there is room again", async (t) => {
  const { ledger, database, warnings } = open(t);
  const limit = (pages: number) => database.prepare(`pragma max_page_count = ${pages}`).get();
  const pages = Number(database.prepare("pragma page_count").get()?.["page_count"]);
  limit(pages + 3);
  const entries = Array.from({ length: 1_000 }, () => entry());
  for (const one of entries) ledger.append(one);
  await t.rejects(ledger.flush(), /full/, "is reported to the caller of flush");
  while (warnings.length === 0) await new Promise((resolve) => setTimeout(resolve, 10));
  t.match(
    warnings,
    [/^The ledger \S+ cannot be written: .*full\. Its entries wait in memory\.$/],
    "and to the operator",
  );
  ledger.append(entry());
  t.ok(ledger.waiting > 0, "new entries wait");
  const [partly] = await ledger.sums({ by: [] });
  t.equal(partly?.requests, rows(database), "sums match the rows on disk");
  limit(1_000_000);
  await ledger.flush();
  t.equal(rows(database), 1_001, "when there is room again nothing is missing");
  t.match(await ledger.sums({ by: [] }), [{ requests: 1_001 }]);
  t.equal((await ledger.recent(2_000)).length, 1_001, "nor their common values");
  t.equal(ledger.dropped, 0);
  t.match(warnings.slice(1), ["The ledger is being written again; 0 entries were lost."]);
});

t.test("another process that locks the file only delays", async (t) => {
  const { ledger, path, database } = open(t);
  const other = new DatabaseSync(path);
  other.exec("begin immediate");
  ledger.append(entry());
  const flushed = ledger.flush();
  setTimeout(() => other.exec("commit"), 60);
  await flushed;
  other.close();
  t.equal(rows(database), 1);
});

t.test("memory for entries that cannot be written is limited; the oldest are dropped first", async (t) => {
  const { ledger, path, warnings } = open(t);
  const other = new DatabaseSync(path);
  other.exec("begin immediate");
  ledger.append(entry({ id: "oldest" }));
  while (warnings.length === 0) await new Promise((resolve) => setTimeout(resolve, 20));
  const attempts = [{ target: "x".repeat(1024 * 1024), startedAt: 0 }];
  for (let at = 0; at < 70; at++) ledger.append(entry({ id: `big ${at}`, attempts }));
  t.ok(ledger.waiting <= 64, "64 MiB of large ones");
  for (let at = 0; at < 101_000; at++) ledger.append(entry({ id: `small ${at}` }));
  t.ok(ledger.waiting <= 100_000, "or a hundred thousand");
  t.equal(ledger.dropped + ledger.waiting, 101_071, "lost entries are counted");
  t.equal(warnings.length, 2, "and logged once");
  t.match(warnings[1], "the oldest entries are being lost");
  other.exec("commit");
  other.close();
  await ledger.flush();
  t.match(await ledger.recent(1), [{ id: "small 100999" }], "the newest are kept");
  t.match(warnings[2], `written again; ${ledger.dropped} entries were lost`);
});

t.test("an entry that cannot be written by any attempt does not stop the others", async (t) => {
  const { ledger, database, warnings } = open(t);
  ledger.append(entry());
  ledger.append({ ...entry(), key: undefined } as unknown as LedgerEntry);
  ledger.append({ ...entry(), model: {} } as unknown as LedgerEntry);
  ledger.append({ ...entry(), attempts: 1n } as unknown as LedgerEntry);
  ledger.append(entry());
  await ledger.flush();
  t.equal(rows(database), 2);
  t.equal(ledger.dropped, 3);
  t.equal(warnings.length, 3);
  t.match(await ledger.sums({ by: ["key", "model"] }), [{ group: ["k1", "fast"], requests: 2 }]);
});

t.test("a row of a damaged journal with too many values does not stop the others", async (t) => {
  const { ledger, database, warnings } = open(t);
  const damaged = { ...entryToRow(entry()), attribution: ["a", "", "more"] as unknown as readonly [string, string] };
  for (const row of [entryToRow(entry()), damaged, entryToRow(entry())]) ledger.appendRow(row);
  await ledger.flush();
  t.equal(rows(database), 2);
  t.match(warnings, [/A ledger entry is lost, for the store refuses it/]);
});

t.test("a row of a damaged journal with too few values is lost, and its neighbours keep theirs", async (t) => {
  const { ledger, database, warnings } = open(t);
  const damaged = entryToRow(entry());
  const [before, after] = [entryToRow(entry({ cost: 7 })), entryToRow(entry({ cost: 11 }))];
  for (const values of [damaged.values.slice(0, -1), damaged.values.slice(0, 3), []])
    for (const row of [before, { ...damaged, values }, after]) ledger.appendRow(row);
  await ledger.flush();
  t.same(database.prepare("select id, cost from usage order by rowid").all(), [
    { id: before.values[0], cost: 7 },
    { id: after.values[0], cost: 11 },
  ]);
  t.match(await ledger.sums({ by: [] }), [{ requests: 2, cost: 18 }]);
  t.equal(warnings.length, 3);
});

t.test("closing on a store that is gone reports how much is lost, and does not throw", async (t) => {
  const { ledger, database, warnings } = open(t);
  ledger.append(entry());
  ledger.append(entry());
  database.close();
  await ledger.close();
  t.equal(ledger.dropped, 2);
  t.match(warnings, [/^2 ledger entries are lost: /]);
});

t.test("where a journal keeps the entries an outage is reported so, with the file's name", async (t) => {
  const { database, path } = open(t);
  const warnings: string[] = [];
  const ledger = new SqliteLedger(database, (message) => warnings.push(message), true);
  const pages = Number(database.prepare("pragma page_count").get()?.["page_count"]);
  database.prepare(`pragma max_page_count = ${pages}`).get();
  for (let i = 0; i < 1000; i++) ledger.append(entry());
  await t.rejects(ledger.flush(), /full/);
  while (warnings.length === 0) await new Promise((resolve) => setTimeout(resolve, 10));
  t.match(warnings, [
    `The ledger ${path} cannot be written: database or disk is full. Its entries wait in the journal.`,
  ]);
  database.prepare("pragma max_page_count = 1000000").get();
  await ledger.close();
});

t.test("closing where a journal keeps the entries reports that they stay there", async (t) => {
  const { database } = open(t);
  const warnings: string[] = [];
  const ledger = new SqliteLedger(database, (message) => warnings.push(message), true);
  ledger.append(entry());
  ledger.append(entry());
  database.close();
  await ledger.close();
  t.equal(ledger.dropped, 0);
  t.match(warnings, [/^2 ledger entries stay in the journal, until the store can be written: /]);
});

t.test("a gateway that is killed loses no entry that flush had acknowledged, and duplicates none", async (t) => {
  const path = join(t.testdir(), "gateway.db");
  const root = new URL("../../../", import.meta.url);
  const script = `
    import { newId } from ${JSON.stringify(new URL("src/core/id.ts", root).href)};
    import { SqliteDatabase } from ${JSON.stringify(new URL("src/store/sqlite/database.ts", root).href)};
    import { SqliteLedger } from ${JSON.stringify(new URL("src/store/sqlite/ledger.ts", root).href)};
    const ledger = new SqliteLedger(new SqliteDatabase(${JSON.stringify(path)}));
    const base = ${JSON.stringify(entry())};
    for (;;) {
      const ids = Array.from({ length: 37 }, () => newId(Date.now()));
      for (const id of ids) ledger.append({ ...base, id });
      await ledger.flush();
      await new Promise((resolve) => process.stdout.write(ids.join(" ") + "\\n", resolve));
    }`;
  const loader = fileURLToPath(new URL("src/loader/register.js", root));
  const acknowledged: string[] = [];
  for (let life = 0; life < 4; life++) {
    const gateway = spawn(process.execPath, ["--import", loader, "--input-type=module", "-e", script], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const ended = once(gateway, "exit");
    const stopAt = acknowledged.length + 37 * (5 + life * 11);
    for await (const line of createInterface({ input: gateway.stdout })) {
      acknowledged.push(...line.split(" ").filter((id) => id.length === 36));
      if (acknowledged.length >= stopAt) gateway.kill("SIGKILL");
    }
    await ended;
  }
  const database = new SqliteDatabase(path);
  t.teardown(() => database.close());
  const ids = database
    .prepare("select id from usage")
    .all()
    .map(({ id }) => String(id));
  const kept = new Set(ids);
  t.ok(acknowledged.length > 37 * 80);
  t.same(
    acknowledged.filter((id) => !kept.has(id)),
    [],
    "none is lost",
  );
  t.equal(kept.size, ids.length, "none is duplicated");
  t.match(
    await new SqliteLedger(database).sums({ by: [] }),
    [{ requests: ids.length }],
    "and the sums count each once",
  );
  t.equal(database.prepare("pragma integrity_check").get()?.["integrity_check"], "ok");
});
