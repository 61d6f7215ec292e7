import { hash } from "node:crypto";
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import t, { type Test } from "tap";
import { journalFolder } from "../../../src/store/journal/files.ts";
import { Journal } from "../../../src/store/journal/journal.ts";
import type { LedgerEntry } from "../../../src/store/ledger.ts";
import { entryToRow } from "../../../src/store/ledger-row.ts";
import { openStores } from "../../../src/store/open.ts";
import { SqliteDatabase } from "../../../src/store/sqlite/database.ts";
import { SqliteLedger } from "../../../src/store/sqlite/ledger.ts";
import { SqliteMaintenance } from "../../../src/store/sqlite/maintenance.ts";
import { runKilledAfter } from "../../support/killed-after.ts";
import { plainEntry } from "../../support/plain-entry.ts";

const HOUR = 3_600_000;
const DAY = Date.UTC(2026, 10, 20);

const USAGE = { in: { total: 100, cached: 40 }, out: { total: 10 }, raw: undefined };
const entry = (change: Partial<LedgerEntry> = {}) => plainEntry(DAY, { cost: 3, usage: USAGE, ...change });

/** A store with rows, and its care. */
async function open(t: Test, entries: readonly LedgerEntry[]) {
  const folder = t.testdir();
  const path = join(folder, "gateway.db");
  const database = new SqliteDatabase(path);
  const ledger = new SqliteLedger(database);
  for (const one of entries) ledger.append(one);
  await ledger.flush();
  const care = new SqliteMaintenance(path);
  t.teardown(async () => {
    care.close();
    await ledger.close();
    database.close();
  });
  const told: string[] = [];
  return { folder, path, database, ledger, care, told, progress: (message: string) => void told.push(message) };
}

t.test("a backup contains everything, including what is only in journals, while the store is in use", async (t) => {
  const { folder, path, care, database, progress } = await open(t, [entry({ id: "stored", group: "acme" })]);
  const stores = openStores(path, [], () => {});
  const { key } = await stores.keys.create({ name: "one" });
  await stores.close();
  writeFileSync(`${path}.secret`, "ab".repeat(32));
  const journal = new Journal(journalFolder(path), () => {});
  t.teardown(() => journal.close());
  journal.end("ended", entryToRow(entry({ id: "ended", time: DAY + 1 })));
  journal.end("stored", entryToRow(entry({ id: "stored", group: "acme" })));
  journal.begin("running", entryToRow(entry({ id: "running", time: DAY + 2, outcome: "interrupted" })));
  journal.write();
  const reading = database.prepare("select * from usage").iterate();
  reading.next();
  const file = join(folder, "copy.db");
  const { rows, bytes } = await care.backup(file, progress);
  reading.return?.();
  t.equal(rows, 3);
  t.equal(bytes, statSync(file).size);
  t.equal(statSync(file).mode & 0o777, 0o600);
  t.equal(readFileSync(`${file}.secret`, "utf8"), "ab".repeat(32));
  t.same(
    readdirSync(folder).filter((name) => name.startsWith("copy")),
    ["copy.db", "copy.db.secret"],
    "one file alone",
  );
  const copy = openStores(file, [], () => {});
  t.match(copy.keys.find(key), { name: "one" });
  t.same(
    (await copy.ledger.recent(5)).map(({ id, outcome }) => `${id} ${outcome}`),
    ["running interrupted", "ended completed", "stored completed"],
    "as if the machine had died at that moment",
  );
  t.match(await copy.ledger.sums({ by: ["group"] }), [
    { group: [""], requests: 2 },
    { group: ["acme"], requests: 1 },
  ]);
  await copy.close();
  const check = new SqliteMaintenance(file);
  t.same(await check.verify(progress), []);
  check.close();
});

t.test("a backup that is killed once the copy has its name has its secret too", async (t) => {
  const { folder, path, care, progress } = await open(t, [entry()]);
  const file = join(folder, "copy.db");
  writeFileSync(`${path}.secret`, "ab".repeat(32));
  const script = `await new module.SqliteMaintenance(${JSON.stringify(path)}).backup(${JSON.stringify(file)}, () => {});`;
  const module = new URL("../../../src/store/sqlite/maintenance.ts", import.meta.url);
  const { killed, stderr } = runKilledAfter("renameSync", "copy.db", module, script);
  t.ok(killed, stderr);
  t.equal(readFileSync(`${file}.secret`, "utf8"), "ab".repeat(32));
  await t.rejects(care.backup(file, progress), { message: /overwrites no file/ });
  await t.rejects(care.backup(join(folder, "gone", "copy.db"), progress), {
    message: `There is no folder ${join(folder, "gone")}: create it first.`,
  });
});

t.test("of two backups to one file at once, one is complete, and the other overwrites nothing", async (t) => {
  const { folder, care, progress } = await open(t, [entry()]);
  const file = join(folder, "copy.db");
  const results = await Promise.allSettled([care.backup(file, progress), care.backup(file, progress)]);
  t.match(
    results.toSorted((a, b) => a.status.localeCompare(b.status)),
    [
      { status: "fulfilled", value: { rows: 1 } },
      { status: "rejected", reason: { message: /overwrites no file/ } },
    ],
  );
  const check = new SqliteMaintenance(file);
  t.same(await check.verify(progress), []);
  check.close();
});

t.test("a backup that cannot be written leaves no file", async (t) => {
  const { folder, care, progress } = await open(t, [entry()]);
  await t.rejects(care.backup(join(folder, "no", "folder.db"), progress));
  t.notOk(existsSync(join(folder, "no")));
  writeFileSync(join(folder, "there.db"), "x");
  await t.rejects(care.backup(join(folder, "there.db"), progress), { message: /overwrites no file/ });
  t.equal(readFileSync(join(folder, "there.db"), "utf8"), "x");
  const file = join(folder, "there.db", "copy.db");
  await t.rejects(care.backup(file, progress), {
    message: `${file} cannot be written: a part of its path is no folder.`,
  });
});

t.test("sums that do not match their rows are found, whichever is missing", async (t) => {
  const entries = [0, 1, 2, 3].flatMap((hour) => [
    entry({ time: DAY + hour * HOUR, model: `m${hour}`, outcome: "aborted" }),
    entry({ time: DAY + hour * HOUR + 7, model: `m${hour}`, source: "none" }),
  ]);
  const { database, care, told, progress } = await open(t, entries);
  t.same(await care.verify(progress), []);
  t.equal(told.length, 2);
  database.prepare("delete from usage_hour where model = 'm0'").run();
  database.prepare("delete from usage where time = ?").run(DAY + HOUR);
  database.prepare("update usage_hour set tokens_out = tokens_out + 1 where model = 'm2'").run();
  database.prepare("update usage_week set cost = cost + 1 where model = 'm3'").run();
  const problems = await care.verify(progress);
  t.equal(problems.length, 5);
  t.equal(problems.pop(), "the sums of the week from 2026-11-19 UTC are not those of its days");
  t.equal(problems.pop(), "the sums of the day 2026-11-20 UTC are not those of its hours");
  for (const [i, problem] of problems.entries())
    t.match(problem, `the sums of 2026-11-20 0${i}h UTC, key k, model m${i}, target p:m are not those of their rows`);
});

t.test("rows are deleted up to a day, and their sums stay", async (t) => {
  const entries = Array.from({ length: 5000 }, (_, i) => entry({ time: DAY + (i % 48) * HOUR + 1, id: `row-${i}` }));
  const { care, ledger, progress } = await open(t, entries);
  const before = await ledger.sums({ by: ["day", "model"] });
  const kept = entries.filter(({ time }) => time >= DAY + 24 * HOUR).length;
  t.equal(await care.prune(DAY + 24 * HOUR, progress), 5000 - kept);
  t.same(await ledger.sums({ by: ["day", "model"] }), before);
  let rows = 0;
  for await (const { time } of ledger.entries({})) rows += time >= DAY + 24 * HOUR ? 1 : 1e9;
  t.equal(rows, kept);
  t.same(await care.verify(progress), []);
  const [part] = await ledger.sums({ by: [], since: DAY + 2, until: DAY + 2 * HOUR });
  const whole = entries.filter(({ time }) => time < DAY + 2 * HOUR).length;
  t.equal(part?.requests, whole, "of an hour whose rows are deleted only the total is known");
  t.equal(await care.prune(DAY, progress), 0, "nothing is deleted twice");
  t.same(await care.verify(progress), []);
});

t.test("a store reports which migrations it had applied", async (t) => {
  const { path, care, database } = await open(t, []);
  const now = database.prepare("pragma user_version").get()?.["user_version"];
  t.same(care.migrated, { from: now, to: now });
  const fresh = new SqliteMaintenance(`${path}.new`);
  t.same(fresh.migrated, { from: 0, to: now });
  fresh.close();
  writeFileSync(`${path}.text`, "this is no database, but long enough to be a header of one".repeat(20));
  t.throws(() => new SqliteMaintenance(`${path}.text`), { name: "FileError" });
});

t.test("a store of the first version is migrated with all its content", async (t) => {
  const path = join(t.testdir(), "gateway.db");
  const old = new DatabaseSync(path);
  const folder = new URL("../../../src/store/sqlite/migrations/", import.meta.url);
  for (const file of readdirSync(folder).sort().slice(0, 3)) old.exec(readFileSync(new URL(file, folder), "utf8"));
  old.exec(`pragma user_version = 3;
    insert into key (hash, id, name, created) values ('${hash("sha256", "x")}', '0123456789', 'one', 1);
    insert into usage_kind values (1, 'k', 'm', 'p:m', 'w', 'o', 200, 'completed', 0, 'reported');
    insert into usage (id, time, kind, attempts, duration, cost, tokens_in, cached, tokens_out, reasoning, detail)
      values ('a', ${DAY + 5}, 1, '1', 1, 7, 100, 40, 10, 3, '{}'), ('b', ${DAY + 25 * HOUR}, 1, '1', 1, 8, 1, 1, 1, 1, null);
    insert into usage_hour values (${DAY}, 'k', 'm', 'p:m', 1, 0, 0, 100, 40, 10, 3, 7),
      (${DAY + 25 * HOUR}, 'k', 'm', 'p:m', 1, 0, 0, 1, 1, 1, 1, 8)`);
  old.close();
  const care = new SqliteMaintenance(path);
  t.equal(care.migrated.from, 3);
  t.same(await care.verify(() => {}), []);
  care.close();
  const stores = openStores(path, [], () => {});
  t.match(await stores.keys.show("one"), { id: "0123456789", name: "one" });
  t.match(await stores.ledger.sums({ by: ["day", "group"] }), [
    { group: ["2026-11-20", ""], requests: 1, cost: 7 },
    { group: ["2026-11-21", ""], requests: 1, cost: 8 },
  ]);
  t.match(await stores.ledger.recent(2), [
    { id: "b", key: "k" },
    { id: "a", usage: { in: { total: 100 } } },
  ]);
  await stores.close();
});
