import { chownSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import t, { type Test } from "tap";
import { journalFile, journalFolder } from "../../../src/store/journal/files.ts";
import { Journal } from "../../../src/store/journal/journal.ts";
import { readJournals } from "../../../src/store/journal/lines.ts";
import type { LedgerEntry } from "../../../src/store/ledger.ts";
import { entryToRow } from "../../../src/store/ledger-row.ts";
import { openStores } from "../../../src/store/open.ts";
import { SqliteDatabase } from "../../../src/store/sqlite/database.ts";
import { importJournals } from "../../../src/store/sqlite/import-journals.ts";
import { SqliteMaintenance } from "../../../src/store/sqlite/maintenance.ts";
import { restoreSqlite } from "../../../src/store/sqlite/restore.ts";
import { runKilledAfter } from "../../support/killed-after.ts";
import { plainEntry } from "../../support/plain-entry.ts";

const DAY = Date.UTC(2026, 10, 20);
const entry = (change: Partial<LedgerEntry> = {}) => plainEntry(DAY, { cost: 3, ...change });
const terms = { force: false, author: { who: "cli:me", address: "here" }, progress: () => {} };

/** A store with a row and a key, and its backup. */
async function open(t: Test) {
  const folder = t.testdir();
  const path = join(folder, "gateway.db");
  const file = join(folder, "copy.db");
  const stores = openStores(path, [], () => {});
  stores.ledger.append(entry({ id: "1" }));
  const { key } = await stores.keys.create({ name: "one" });
  await stores.close();
  writeFileSync(`${path}.secret`, "a".repeat(64));
  const care = new SqliteMaintenance(path);
  await care.backup(file, () => {});
  care.close();
  const ids = (of = path) => {
    const database = new SqliteDatabase(of);
    const rows = database.prepare("select id from usage order by time, id").all();
    database.close();
    return rows.map(({ id }) => String(id));
  };
  return { folder, path, file, key, ids };
}

t.test("a backup replaces a store, with keys and secret, and the previous files stay", async (t) => {
  const { folder, path, file, key, ids } = await open(t);
  const later = openStores(path, [], () => {});
  const { record } = await later.keys.create({ name: "two" });
  await later.close();
  writeFileSync(`${path}.secret`, "b".repeat(64));
  const { rows, kept = "" } = await restoreSqlite(path, file, { ...terms, force: true });
  t.equal(rows, 1);
  t.same(ids(), ["1"]);
  t.equal(readFileSync(`${path}.secret`, "utf8"), "a".repeat(64));
  t.equal(readFileSync(`${kept}.secret`, "utf8"), "b".repeat(64));
  t.equal(statSync(path).mode & 0o777, 0o600);
  const stores = openStores(path, [], () => {});
  t.match(await stores.keys.find(key), { name: "one" });
  t.equal(await stores.keys.show(record.id), undefined, "a key that was created later is gone");
  await stores.close();
  const before = openStores(kept, [], () => {});
  t.match(await before.keys.show(record.id), { name: "two" });
  await before.close();
  t.same(
    readdirSync(folder).filter((name) => name.includes(".part")),
    [],
  );
  t.ok(existsSync(file), "the backup is unchanged");
});

const isRoot = process.getuid?.() === 0;
t.test(
  "a restore by root leaves store and secret to the gateway's user",
  { skip: !isRoot && "not root" },
  async (t) => {
    const { folder, path, file } = await open(t);
    for (const each of [folder, path, `${path}.secret`]) chownSync(each, 4711, 4712);
    for (const each of [file, `${file}.secret`]) chownSync(each, 0, 0);
    const owners = () => [path, `${path}.secret`].map((each) => statSync(each)).map(({ uid, gid }) => [uid, gid]);
    const gateway = [4711, 4712];
    await restoreSqlite(path, file, terms);
    t.same(owners(), [gateway, gateway], "that of the store before");
    for (const each of [path, `${path}.secret`]) rmSync(each);
    await restoreSqlite(path, file, terms);
    t.same(owners(), [gateway, gateway], "without a store that of its folder");
  },
);

t.test("a backup replaces the store of a newer version, whose revocations and journals stay", async (t) => {
  const { path, file, key, ids } = await open(t);
  const later = openStores(path, [], () => {});
  await later.keys.revoke("one");
  await later.close();
  const journal = join(journalFolder(path), "1-1-1-000001.jsonl");
  mkdirSync(journalFolder(path), { recursive: true });
  writeFileSync(journal, "");
  const newer = new DatabaseSync(path);
  newer.exec("pragma user_version = 1000");
  newer.close();
  t.throws(() => new SqliteDatabase(path), { message: /newer version/ });
  await t.rejects(restoreSqlite(path, file, terms), { message: /--force/ });
  t.match(await restoreSqlite(path, file, { ...terms, force: true }), { rows: 1, kept: /until-/ });
  t.same(ids(), ["1"]);
  t.ok(existsSync(journal));
  const stores = openStores(path, [], () => {});
  t.match(await stores.keys.find(key), { revoked: Number });
  await stores.close();
});

t.test("two restores at once leave a complete store", async (t) => {
  const { path, file, ids } = await open(t);
  const results = await Promise.allSettled([restoreSqlite(path, file, terms), restoreSqlite(path, file, terms)]);
  t.ok(
    results.some(({ status }) => status === "fulfilled"),
    JSON.stringify(results),
  );
  for (const result of results) if (result.status === "rejected") t.match(result.reason.message, /has the store open/);
  t.same(ids(), ["1"]);
  const care = new SqliteMaintenance(path);
  t.same(await care.verify(() => {}), []);
  care.close();
});

/** Restores in a process that is killed once it has made a file. */
function restoreKilled(t: Test, call: string, name: string, path: string, file: string): void {
  const options = '{ force: true, author: { who: "cli:me", address: "here" }, progress() {} }';
  const script = `await module.restoreSqlite(${JSON.stringify(path)}, ${JSON.stringify(file)}, ${options});`;
  const { killed, stderr } = runKilledAfter(call, name, RESTORE, script);
  t.ok(killed, stderr);
}

const RESTORE = new URL("../../../src/store/sqlite/restore.ts", import.meta.url);

t.test("a restore that is killed leaves a complete store under its name at any moment", async (t) => {
  const { path, file, ids } = await open(t);
  const later = openStores(path, [], () => {});
  later.ledger.append(entry({ id: "2" }));
  await later.close();
  restoreKilled(t, "linkSync", ".until-", path, file);
  t.same(ids(), ["1", "2"]);
  restoreKilled(t, "renameSync", "gateway.db", path, file);
  t.same(ids(), ["1"]);
  t.equal((await restoreSqlite(path, file, terms)).rows, 1, "it can be repeated");
});

t.test("a restore that is killed while it copies the secret leaves a complete one", async (t) => {
  const { folder, path, file } = await open(t);
  writeFileSync(`${file}.secret`, "b".repeat(64));
  restoreKilled(t, "copyFileSync", "gateway.db.secret", path, file);
  t.equal(readFileSync(`${path}.secret`, "utf8"), "a".repeat(64));
  await restoreSqlite(path, file, terms);
  t.equal(readFileSync(`${path}.secret`, "utf8"), "b".repeat(64));
  t.same(
    readdirSync(folder).filter((name) => name.includes(".part")),
    [],
  );
});

t.test("a restore whose secret cannot be copied changes nothing", async (t) => {
  const { folder, path, file, ids } = await open(t);
  const later = openStores(path, [], () => {});
  later.ledger.append(entry({ id: "2" }));
  await later.close();
  rmSync(`${file}.secret`);
  mkdirSync(`${file}.secret`);
  await t.rejects(restoreSqlite(path, file, { ...terms, force: true }));
  t.same(ids(), ["1", "2"]);
  t.same(
    readdirSync(folder).filter((name) => /\.part|\.until-/.test(name)),
    [],
  );
});

t.test("of several restores in one second, each keeps what was there before", async (t) => {
  const { path, file } = await open(t);
  const names = new Set<string | undefined>();
  for (let nth = 0; nth < 5; nth++) names.add((await restoreSqlite(path, file, terms)).kept);
  t.equal(names.size, 5);
  for (const name of names) t.ok(existsSync(name as string));
});

t.test("changes of keys since the backup are named, and only undone when that is requested", async (t) => {
  const { path, file, key } = await open(t);
  const later = openStores(path, [], () => {});
  await later.keys.revoke("one");
  const { record } = await later.keys.create({ name: "two" });
  await later.audit.add({
    time: Date.now(),
    who: "a",
    address: "b",
    action: "keys.revoke",
    subject: "one",
    detail: {},
  });
  const { id = "" } = (await later.keys.show("one")) ?? (await later.keys.list())[0] ?? {};
  await later.close();
  const changes = [`key "one" (${id}) was revoked`, `key "two" (${record.id}) was made`];
  await t.rejects(restoreSqlite(path, file, terms), {
    message: `The backup lacks later changes of keys or groups: ${changes.join(", ")}. To restore it all the same: --force; what was revoked or disabled stays so, and rotated keys keep their new secret.`,
  });
  const restored = await restoreSqlite(path, file, { ...terms, force: true });
  t.same([restored.retained, restored.undone], [changes.slice(0, 1), changes.slice(1)]);
  const stores = openStores(path, [], () => {});
  t.type((await stores.keys.find(key))?.revoked, "number", "a revoked key stays revoked");
  t.match(await stores.audit.list(10), [
    { who: "cli:me", action: "store.restore", subject: "store", detail: { file, undone: changes[1] } },
    { who: "a", action: "keys.revoke" },
  ]);
  await stores.close();
});

t.test("a group that was disabled since the backup stays so", async (t) => {
  const { path, file } = await open(t);
  const later = openStores(path, [], () => {});
  await later.keys.disableGroup("acme");
  await later.close();
  await t.rejects(restoreSqlite(path, file, terms), {
    message: /later changes of keys or groups: group "acme" was disabled/,
  });
  const { retained } = await restoreSqlite(path, file, { ...terms, force: true });
  t.same(retained, ['group "acme" was disabled']);
  const stores = openStores(path, [], () => {});
  t.equal(await stores.keys.disabledGroup("acme/x"), "acme");
  await stores.close();
});

t.test("a backup that was restored is restored again without changes to name", async (t) => {
  const { folder, path } = await open(t);
  const stores = openStores(path, [], () => {});
  for (const name of ["revoked", "disabled", "plain"]) await stores.keys.create({ name });
  await stores.keys.revoke("revoked");
  await stores.keys.disable("disabled");
  await stores.close();
  const file = join(folder, "stopped.db");
  const care = new SqliteMaintenance(path);
  await care.backup(file, () => {});
  care.close();
  for (const _ of [1, 2]) {
    const { retained, undone } = await restoreSqlite(path, file, terms);
    t.same({ retained, undone }, { retained: undefined, undone: undefined });
  }
});

t.test(
  "of a key that was rotated since the backup the new secret is valid afterwards, and the old one is not",
  async (t) => {
    for (const overlap of [0, 60_000]) {
      const { path, file, key: old } = await open(t);
      const later = openStores(path, [], () => {});
      const [{ id = "" } = {}] = await later.keys.list();
      const rotated = await later.keys.rotate(id, overlap);
      await later.close();
      const restored = await restoreSqlite(path, file, { ...terms, force: true });
      t.same([restored.retained, restored.undone], [[`key "one" (${id}) was rotated`], undefined]);
      const stores = openStores(path, [], () => {});
      t.match(await stores.keys.find(rotated?.key ?? ""), { id });
      t.equal((await stores.keys.find(old))?.id, overlap > 0 ? id : undefined, "as before the restore");
      await stores.close();
    }
  },
);

t.test("a backup is restored where no store is", async (t) => {
  const { folder, file, ids } = await open(t);
  const other = join(folder, "other.db");
  t.same(await restoreSqlite(other, file, terms), { rows: 1 });
  t.same(ids(other), ["1"]);
});

/** Writes the row of an exchange to a journal of the store at a path, as a gateway that was killed leaves it. */
function leaveInJournal(path: string, id: string): string {
  const journal = new Journal(journalFolder(path), () => {});
  journal.end(id, entryToRow(entry({ id, time: DAY + 1 })));
  journal.write();
  journal.close();
  return journal.folder;
}

t.test(
  "where a store's file is lost or damaged, requests that only its journal has come back with the backup",
  async (t) => {
    for (const damage of ["lost", "no database", "damaged pages"]) {
      const { path, file, ids } = await open(t);
      const folder = leaveInJournal(path, "2");
      if (damage === "lost") rmSync(path);
      else {
        const bytes = damage === "no database" ? Buffer.alloc(8192, "x") : readFileSync(path).fill("x", 4096);
        writeFileSync(path, bytes);
        await t.rejects(restoreSqlite(path, file, { ...terms, force: true }), {
          message: new RegExp(`^The store ${path} is damaged itself \\(.*move it away.* Nothing was changed\\.$`),
        });
        t.same(readFileSync(path), bytes);
        rmSync(path);
      }
      const told: string[] = [];
      await restoreSqlite(path, file, { ...terms, progress: (text) => told.push(text) });
      t.match(told.at(-1), /requests in the lost store's journals stay/, damage);
      t.equal(readdirSync(folder).length, 1, damage);
      const database = new SqliteDatabase(path, true);
      await importJournals(database, await readJournals(folder));
      database.close();
      t.same(ids(), ["1", "2"], damage);
    }
  },
);

t.test("a backup whose secret is none is refused: no gateway would start with it", async (t) => {
  const { path, file, ids } = await open(t);
  writeFileSync(`${file}.secret`, "b".repeat(62));
  for (const store of [path, `${path}.new`]) {
    await t.rejects(restoreSqlite(store, file, terms), {
      message: /copy\.db\.secret contains no secret \(64 hexadecimal digits\).* Nothing was changed\.$/,
    });
  }
  t.notOk(existsSync(`${path}.new`));
  t.same(ids(), ["1"]);
  t.equal(readFileSync(`${path}.secret`, "utf8"), "a".repeat(64));
});

t.test("nothing is restored while a process has the store open", async (t) => {
  const { path, file, ids } = await open(t);
  const database = new SqliteDatabase(path);
  await t.rejects(restoreSqlite(path, file, { ...terms, force: true }), {
    message: "A gateway, or another command, has the store open: stop it first. Nothing was changed.",
  });
  database.prepare("select 1 from usage").get();
  database.close();
  t.same(ids(), ["1"]);
  t.equal((await restoreSqlite(path, file, terms)).rows, 1);
});

t.test(
  "a store with later exchanges is only replaced when that is requested, also where they are in a journal",
  async (t) => {
    const { path, file, ids } = await open(t);
    const journal = new Journal(journalFolder(path), () => {});
    journal.end("2", entryToRow(entry({ id: "2", time: DAY + 1 })));
    journal.begin("3", entryToRow(entry({ id: "3", time: DAY + 2, outcome: "interrupted" })));
    journal.write();
    journal.close();
    // That of a process that was killed as it began the file.
    const part = `${journalFile(journal.folder, "999999999-1-1", 1)}.part`;
    const { kind, values } = entryToRow(entry({ id: "4", time: DAY + 3 }));
    writeFileSync(part, `${JSON.stringify(["ended", [kind, values]])}\n`);
    await t.rejects(restoreSqlite(path, file, terms), {
      message:
        "The store has exchanges from 2026-11-20T00:00:00.003Z, later than the backup's last (2026-11-20T00:00:00.000Z): they would be lost. To restore it all the same: --force.",
    });
    const { kept = "" } = await restoreSqlite(path, file, { ...terms, force: true });
    t.same(ids(), ["1"]);
    t.same(ids(kept), ["1", "2", "3", "4"]);
    t.same(readdirSync(journal.folder), [], "no journal brings them back");
  },
);

t.test("a machine with nothing left but the backup gets its store, folder and all", async (t) => {
  const { folder, file, ids } = await open(t);
  const path = join(folder, "fresh", "data", "gateway.db");
  t.match(await restoreSqlite(path, file, terms), { rows: 1 });
  t.same(ids(path), ["1"]);
  if (process.platform !== "win32") t.equal(statSync(join(folder, "fresh", "data")).mode & 0o777, 0o700);
});

t.test("an invalid or damaged backup changes nothing", async (t) => {
  const { folder, path, file, ids } = await open(t);
  const odd = join(folder, "odd.db");
  await t.rejects(restoreSqlite(path, odd, terms), { message: `There is no ${odd}.` });
  await t.rejects(restoreSqlite(path, folder, terms), { message: `${folder} is a folder, not a backup.` });
  writeFileSync(odd, "");
  await t.rejects(restoreSqlite(path, odd, terms), { message: /odd\.db is not a backup of a store: no such table/ });
  writeFileSync(odd, "text that is no database".repeat(100));
  await t.rejects(restoreSqlite(path, odd, terms), {
    message: /odd\.db is not a backup of a store: file is not a database/,
  });
  await t.rejects(restoreSqlite(path, path, terms), { message: /is the store itself/ });
  const database = new SqliteDatabase(file);
  database.prepare("update usage_hour set cost = cost + 1").run();
  database.close();
  await t.rejects(restoreSqlite(path, file, terms), {
    message: /copy\.db is damaged: the sums of .* Nothing was changed\./,
  });
  const newer = new SqliteDatabase(file);
  newer.prepare("pragma user_version = 999").get();
  newer.close();
  await t.rejects(restoreSqlite(path, file, terms), { message: /newer version of model-gateway/ });
  t.same(ids(), ["1"]);
  t.same(
    readdirSync(folder).filter((name) => name.includes(".part")),
    [],
  );
});
