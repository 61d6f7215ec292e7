import { spawnSync } from "node:child_process";
import fs, {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import type { Worker } from "node:worker_threads";
import t, { type Test } from "tap";
import { journalFile, journalFolder } from "../../../src/store/journal/files.ts";
import { Journal } from "../../../src/store/journal/journal.ts";
import { JournaledLedger } from "../../../src/store/journal/journaled-ledger.ts";
import { LedgerThread } from "../../../src/store/journal/ledger-thread.ts";
import type { LedgerEntry } from "../../../src/store/ledger.ts";
import { entryToRow } from "../../../src/store/ledger-row.ts";
import { SqliteDatabase } from "../../../src/store/sqlite/database.ts";
import { pruneSqlite } from "../../../src/store/sqlite/pruning.ts";
import { testPlacedSums } from "../../support/placed-sums.ts";
import { until } from "../../support/until.ts";
import { leaveWaitingRows } from "../../support/waiting-rows.ts";

const entry = (id: string, more: Partial<LedgerEntry> = {}): LedgerEntry => ({
  ...{ id, time: Date.UTC(2026, 10, 20), key: "k", model: "m", target: "p:m", protocol: "wire", operation: "generate" },
  ...{ status: 200, outcome: "completed", streaming: false, attempts: [], duration: 1, source: "none" },
  ...more,
});

function open(t: Test, folder = t.testdir()) {
  const file = join(folder, "gateway.db");
  new SqliteDatabase(file).close();
  const warnings: string[] = [];
  return {
    file,
    folder,
    warnings,
    ledger: new JournaledLedger(file, journalFolder(file), (text) => warnings.push(text)),
  };
}

t.test("entries are in the journal when persist returns, then in the store, and then in no journal", async (t) => {
  const { file, ledger, warnings } = open(t);
  ledger.begin(entry("1", { outcome: "interrupted" }));
  ledger.append(entry("1"));
  ledger.begin(entry("2", { outcome: "interrupted" }));
  t.notOk(existsSync(`${file}.journal`));
  ledger.persist();
  t.equal(readdirSync(`${file}.journal`).length, 1);
  t.same(
    (await ledger.recent(10)).map(({ id, outcome }) => [id, outcome]),
    [["1", "completed"]],
  );
  t.match(await ledger.sums({ by: ["key"] }), [{ group: ["k"], requests: 1 }]);
  ledger.append(entry("2"));
  await ledger.close();
  t.same(readdirSync(`${file}.journal`), []);
  const next = new JournaledLedger(file, journalFolder(file));
  t.match(await next.sums({ by: [] }), [{ requests: 2, failed: 0 }]);
  await next.close();
  t.same([warnings, ledger.state], [[], "ok"]);
});

t.test("sums tell how far they include each journal", async (t) => {
  const { file } = open(t);
  await testPlacedSums(t, file, journalFolder(file));
});

t.test("it says when entries go on into the store", async (t) => {
  const { ledger } = open(t);
  t.teardown(() => ledger.close());
  let feeds = 0;
  ledger.onFeed = () => feeds++;
  await ledger.flush();
  t.equal(feeds, 0, "there are none");
  ledger.append(entry("1"));
  const flushed = ledger.flush();
  t.equal(feeds, 1);
  await flushed;
  ledger.append(entry("2"));
  await until(() => feeds > 1, "them to be noticed");
});

t.test("when the thread has died another one continues: nothing is lost or duplicated", async (t) => {
  const { ledger, warnings } = open(t);
  ledger.append(entry("1"));
  await ledger.flush();
  ledger.append(entry("2"));
  ledger.persist();
  await (Reflect.get(LedgerThread.shared(), "worker") as Worker).terminate();
  t.match(warnings, [/thread has ended.*another one reads it/]);
  t.equal(ledger.state, "waiting");
  ledger.append(entry("3"));
  t.match(await ledger.sums({ by: [] }), [{ requests: 3 }]);
  t.equal(ledger.state, "ok");
  await ledger.close();
});

t.test("a store that is down is reported at once to queries, though rows wait for it", async (t) => {
  const tls = { mode: "disable" as const };
  const nobody = { host: "127.0.0.1", port: 1, user: "u", database: "d", tls, application: "test", connectTimeout: 1 };
  const ledger = new JournaledLedger(nobody, join(t.testdir(), "journal"));
  ledger.append(entry("1"));
  await t.rejects(ledger.sums({ by: [] }), /ECONNREFUSED/);
  await ledger.close();
});

t.test("while a store is down, those who wait for it share a request to the thread", async (t) => {
  const tls = { mode: "disable" as const };
  const nobody = { host: "127.0.0.1", port: 1, user: "u", database: "d", tls, application: "test", connectTimeout: 1 };
  const ledger = new JournaledLedger(nobody, join(t.testdir(), "journal"));
  const calls = Reflect.get(LedgerThread.shared(), "calls") as Map<number, unknown>;
  const waiting: Promise<unknown>[] = [];
  for (let i = 0; i < 100; i++) {
    ledger.append(entry(`${i}`));
    waiting.push(ledger.flush().catch(() => {}));
  }
  await sleep(300);
  t.ok(calls.size <= 2, `${calls.size}`);
  await ledger.close();
  await Promise.all(waiting);
});

t.test("rows are those of the store and of all journals, each once", async (t) => {
  const { file, ledger } = open(t);
  for (const id of ["1", "3"]) ledger.append(entry(id));
  await ledger.flush();
  const other = new Journal(journalFolder(file), () => {});
  t.teardown(() => other.close());
  other.begin("2", entryToRow(entry("2", { outcome: "interrupted" })));
  other.end("2", entryToRow(entry("2", { group: "acme" })));
  other.end("3", entryToRow(entry("3")));
  other.begin("4", entryToRow(entry("4")));
  other.write();
  const found: string[] = [];
  for await (const { id, group, outcome } of ledger.entries({})) found.push(`${id} ${group} ${outcome}`);
  t.same(
    found,
    ["1 undefined completed", "2 acme completed", "3 undefined completed"],
    "a running exchange has no row yet",
  );
  for await (const { id } of ledger.entries({ since: Date.UTC(2027, 0, 1) })) t.fail(id);
  for await (const { id } of ledger.entries({ billedApart: true })) t.fail(id);
  const usage = { in: {}, out: {}, raw: undefined, model: "another" };
  other.begin("5", entryToRow(entry("5")));
  other.end("5", entryToRow(entry("5", { usage, source: "reported" })));
  other.write();
  const billedApart: string[] = [];
  for await (const { id } of ledger.entries({ billedApart: true })) billedApart.push(id);
  t.same(billedApart, ["5"]);
  await ledger.close();
});

t.test("rows that have been deleted are none of the journal's either", async (t) => {
  const { file, ledger } = open(t);
  const other = new Journal(journalFolder(file), () => {});
  t.teardown(() => other.close());
  const day = Date.UTC(2026, 10, 20);
  other.end("old", entryToRow(entry("old", { time: day - 1 })));
  other.end("young", entryToRow(entry("young", { time: day })));
  other.write();
  const database = new SqliteDatabase(file);
  for await (const _ of pruneSqlite(database, day, { rows: 1, pause: 1 }));
  database.close();
  const found: string[] = [];
  for await (const { id } of ledger.entries({})) found.push(id);
  t.same(found, ["young"]);
  await ledger.close();
});

t.test("entries are written to the disk without a request to do so", async (t) => {
  const { file, ledger } = open(t);
  ledger.append(entry("1"));
  const database = new SqliteDatabase(file);
  const rows = () => database.prepare("select count(*) as rows from usage").get()?.["rows"];
  while (rows() !== 1) await new Promise((more) => setTimeout(more, 20));
  database.close();
  await ledger.close();
});

t.test("a ledger that is only opened starts nothing and leaves nothing", async (t) => {
  const { folder, ledger } = open(t);
  await ledger.flush();
  await ledger.close();
  t.same(readdirSync(folder), ["gateway.db"]);
});

t.test("rows of dead processes are in the store when that is requested, even right after their death", async (t) => {
  const before = open(t, t.testdir({ before: {}, after: {} }).concat("/before"));
  before.ledger.begin(entry("1", { outcome: "interrupted", cost: 7, usage: { in: {}, out: {}, raw: undefined } }));
  before.ledger.persist();
  const { file, folder, ledger, warnings } = open(t, join(before.folder, "../after"));
  const left = join(`${file}.journal`, `${spawnSync(process.execPath, ["-e", ""]).pid}-5-1-000001.jsonl`);
  mkdirSync(`${file}.journal`);
  copyFileSync(join(`${before.file}.journal`, readdirSync(`${before.file}.journal`)[0] as string), left);
  // It may be somebody's for a second still.
  const seconds = Date.now() / 1000 - 1.5;
  utimesSync(left, seconds, seconds);
  await ledger.recovered();
  t.match(await ledger.sums({ by: ["key"] }), [{ requests: 1, cost: 7 }]);
  await ledger.recovered();
  await ledger.close();
  await before.ledger.close();
  t.same([warnings, folder.endsWith("after")], [[], true]);
});

t.test(
  "nobody waits longer for a journal that another machine may use where the clock is set back meanwhile",
  async (t) => {
    const { file, ledger } = open(t);
    mkdirSync(journalFolder(file));
    const used = journalFile(journalFolder(file), "999999999-5-1", 1);
    const touch = () => writeFileSync(used, "");
    touch();
    const timer = setInterval(touch, 500);
    const { now } = Date;
    const begun = performance.now();
    const recovered = ledger.recovered();
    Date.now = () => now() - 3_600_000;
    // Not in a teardown: the folder is removed before the last of them.
    await recovered.finally(() => {
      clearInterval(timer);
      Date.now = now;
    });
    t.ok(performance.now() - begun < 20_000);
    await ledger.close();
  },
);

t.test("so are those of processes that begin and die while this one runs", async (t) => {
  const { folder, file, ledger } = open(t);
  ledger.append(entry("1"));
  t.match(await ledger.sums({ by: [] }), [{ requests: 1 }]);
  // It has looked for such journals at its start.
  await sleep(100);
  const dead = new Journal(join(folder, "other"), () => {});
  dead.end("2", entryToRow(entry("2")));
  dead.write();
  dead.close();
  const left = journalFile(journalFolder(file), `${spawnSync(process.execPath, ["-e", ""]).pid}-5-1`, 1);
  copyFileSync(journalFile(join(folder, "other"), dead.owner, 1), left);
  utimesSync(left, new Date(0), new Date(0));
  await until(() => !existsSync(left), "the journal to be read");
  t.match(await ledger.sums({ by: [] }), [{ requests: 2 }]);
  await ledger.close();
});

t.test(
  "a journal from before a restart of the machine is fed to the store, though its process had the same id and ticks",
  { skip: process.platform !== "linux" },
  async (t) => {
    const { folder, file, ledger, warnings } = open(t);
    const { owner } = Reflect.get(ledger, "journal") as Journal;
    const [ticks] = readFileSync("/proc/self/stat", "utf8")
      .replace(/^.*\) /s, "")
      .split(" ")
      .slice(19);
    const left = new Journal(join(folder, "other"), () => {});
    left.end("1", entryToRow(entry("1")));
    left.write();
    left.close();
    mkdirSync(journalFolder(file));
    const name = journalFile(journalFolder(file), `${process.pid}-${ticks}-${owner.split("-")[2]}`, 1);
    copyFileSync(journalFile(join(folder, "other"), left.owner, 1), name);
    utimesSync(name, new Date(0), new Date(0));
    ledger.append(entry("2"));
    await ledger.recovered();
    t.match(await ledger.sums({ by: [] }), [{ requests: 2 }]);
    await ledger.close();
    t.same([warnings, readdirSync(journalFolder(file))], [[], []]);
  },
);

t.test("the reason of a failed exchange survives the process that wrote it", async (t) => {
  const before = open(t);
  const why: Partial<LedgerEntry> = {
    ...{ status: 429, outcome: "rejected" as const, dropped: ["top_k"], notices: ["read otherwise"] },
    error: { code: "rate_limit_exceeded", message: 'The key "ci" may make 1 request a minute.' },
    attempts: [{ target: "q:m", status: 503, error: "upstream_refused", message: "It is busy.", startedAt: 2 }],
  };
  before.ledger.append(entry("1", why));
  before.ledger.persist();
  const folder = join(before.folder, "after");
  mkdirSync(folder);
  const { file, ledger } = open(t, folder);
  const left = join(`${file}.journal`, `${spawnSync(process.execPath, ["-e", ""]).pid}-5-1-000001.jsonl`);
  mkdirSync(`${file}.journal`);
  copyFileSync(join(`${before.file}.journal`, readdirSync(`${before.file}.journal`)[0] as string), left);
  await ledger.recovered();
  t.match(await ledger.recent(1), [why]);
  await ledger.close();
  await before.ledger.close();
});

t.test("several ledgers in one process are separate", async (t) => {
  const one = open(t);
  const folder = join(one.folder, "other");
  const { mkdirSync } = await import("node:fs");
  mkdirSync(folder);
  const other = open(t, folder);
  one.ledger.append(entry("1"));
  other.ledger.append(entry("2"));
  other.ledger.append(entry("3"));
  t.match(await one.ledger.sums({ by: [] }), [{ requests: 1 }]);
  t.match(await other.ledger.sums({ by: [] }), [{ requests: 2 }]);
  await Promise.all([one.ledger.close(), other.ledger.close()]);
});

t.test("a query that the store cannot answer has its reason", async (t) => {
  const { ledger } = open(t);
  ledger.append(entry("1"));
  await t.rejects(ledger.sums({ by: ["nothing" as "key"] }), /no such column|undefined/);
  await ledger.close();
});

t.test("with durability: power, entries are on the disk when persist returns, once for all of a turn", async (t) => {
  const synced = new Map<number, number>();
  let syncs = 0;
  const real = fs.fdatasyncSync;
  fs.fdatasyncSync = (fd) => {
    real(fd);
    syncs++;
    synced.set(fd, fs.fstatSync(fd).size);
  };
  syncBuiltinESMExports();
  t.teardown(() => {
    fs.fdatasyncSync = real;
    syncBuiltinESMExports();
  });
  const { file } = open(t);
  const ledger = new JournaledLedger(file, journalFolder(file), (text) => t.fail(text), { durability: "power" });
  t.teardown(() => ledger.close());
  for (let turn = 1; turn <= 3; turn++) {
    for (let i = 0; i < 20; i++) {
      ledger.begin(entry(`${turn} ${i}`, { outcome: "interrupted" }));
      ledger.append(entry(`${turn} ${i}`));
    }
    ledger.persist();
    ledger.persist();
    t.equal(syncs, turn);
  }
  const journal = readdirSync(`${file}.journal`).map((name) => join(`${file}.journal`, name));
  t.same(
    journal.map((name) => fs.statSync(name).size),
    [...synced.values()],
    "everything is flushed to the disk",
  );
  const usual = new JournaledLedger(file, journalFolder(file), (text) => t.fail(text));
  usual.append(entry("usual"));
  usual.persist();
  t.equal(syncs, 3, "by default nothing waits for the disk");
  await usual.close();
});

t.test("with durability: power the name of a journal's file is on the disk too", async (t) => {
  const synced: string[] = [];
  const real = fs.fsyncSync;
  fs.fsyncSync = (fd) => {
    real(fd);
    const { ino } = fs.fstatSync(fd);
    if (existsSync(folder) && fs.statSync(folder).ino === ino) synced.push(...readdirSync(folder));
  };
  syncBuiltinESMExports();
  t.teardown(() => {
    fs.fsyncSync = real;
    syncBuiltinESMExports();
  });
  const { file } = open(t);
  const folder = journalFolder(file);
  const names = () => readdirSync(folder);
  const usual = new JournaledLedger(file, folder, (text) => t.fail(text));
  t.teardown(() => usual.close());
  usual.append(entry("usual"));
  usual.persist();
  const [others] = names();
  t.same(synced, [], "by default nothing waits for the disk");
  const ledger = new JournaledLedger(file, folder, (text) => t.fail(text), { durability: "power" });
  t.teardown(() => ledger.close());
  ledger.append(entry("1"));
  ledger.persist();
  const made = names().filter((name) => name !== others);
  t.equal(made.length, 1);
  t.ok(synced.includes(made[0] as string), "the folder as it was when it was synced");
});

t.test("what the disk did not accept is written again", async (t) => {
  const { file, ledger: other } = open(t);
  await other.close();
  const real = fs.fdatasyncSync;
  t.teardown(() => {
    fs.fdatasyncSync = real;
    syncBuiltinESMExports();
  });
  fs.fdatasyncSync = () => {
    throw new Error("EIO: i/o error, fdatasync");
  };
  syncBuiltinESMExports();
  const warnings: string[] = [];
  const ledger = new JournaledLedger(file, journalFolder(file), (text) => warnings.push(text), { durability: "power" });
  ledger.append(entry("1"));
  ledger.persist();
  t.match(warnings, [/journal cannot be written: EIO.*waits in memory/]);
  const [name = ""] = readdirSync(`${file}.journal`);
  t.equal(fs.statSync(join(`${file}.journal`, name)).size, 0, "the unconfirmed line is removed");
  fs.fdatasyncSync = real;
  syncBuiltinESMExports();
  await ledger.close();
  const next = new JournaledLedger(file, journalFolder(file));
  t.match(await next.sums({ by: [] }), [{ requests: 1 }]);
  await next.close();
});

t.test("rows that wait, here or in another gateway's journal, are reported with sums", async (t) => {
  const { file, ledger } = open(t);
  t.teardown(() => ledger.close());
  ledger.append(entry("1"));
  await ledger.flush();
  t.equal(ledger.isBehind(), false);
  const other = leaveWaitingRows(file);
  t.equal(ledger.isBehind(), true);
  rmSync(other);
  t.equal(ledger.isBehind(), false);
  await (Reflect.get(LedgerThread.shared(), "worker") as Worker).terminate();
  t.equal(ledger.isBehind(), true);
});

/** Makes each write fail until the end of the test, or a call of the function that it returns. */
function fillDisk(t: Test): () => void {
  const real = fs.writeSync;
  const restore = () => {
    fs.writeSync = real;
    syncBuiltinESMExports();
  };
  t.teardown(restore);
  fs.writeSync = () => {
    throw new Error("ENOSPC: no space left on device, write");
  };
  syncBuiltinESMExports();
  return restore;
}

t.test("a journal that cannot be written shows others since when", async (t) => {
  const { file, ledger } = open(t);
  t.teardown(() => ledger.close());
  ledger.append(entry("1"));
  await ledger.flush();
  const [name = ""] = readdirSync(`${file}.journal`);
  const lag = () => {
    const { mtimeMs, atimeMs } = fs.statSync(join(`${file}.journal`, name));
    return mtimeMs - atimeMs;
  };
  const restore = fillDisk(t);
  ledger.append(entry("2"));
  ledger.persist();
  await until(() => lag() >= 1000, "the time since when it cannot be written");
  restore();
  // A read may set the time of access too.
  await until(() => lag() <= 0, "the end of that");
});

t.test("entries that waited for a full disk are fed to the store without a further request", async (t) => {
  const { file, ledger: other } = open(t);
  other.append(entry("0"));
  await other.flush();
  await other.close();
  const restore = fillDisk(t);
  const warnings: string[] = [];
  const ledger = new JournaledLedger(file, journalFolder(file), (text) => warnings.push(text));
  t.teardown(() => ledger.close());
  ledger.append(entry("1"));
  ledger.persist();
  t.match(warnings, [/journal cannot be written: ENOSPC/]);
  // Whatever the first try has armed is over.
  await sleep(300);
  restore();
  const store = new DatabaseSync(file, { readOnly: true });
  t.teardown(() => store.close());
  const rows = () => store.prepare("select count(*) as rows from usage").get()?.["rows"];
  await until(() => rows() === 2, "both rows");
});

t.test("a folder of the journal that cannot be used is reported when the gateway starts", async (t) => {
  const { file, ledger, warnings } = open(t);
  ledger.watch();
  t.same(warnings, [], "it is made with the first entry");
  writeFileSync(`${file}.journal`, "");
  ledger.watch();
  t.match(warnings, [
    /folder of the ledger's journal, \S+\.journal, cannot be used: ENOTDIR.*let this user read and write it/,
  ]);
  await ledger.close();
});
