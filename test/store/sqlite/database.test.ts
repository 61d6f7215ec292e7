import { once } from "node:events";
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { Worker } from "node:worker_threads";
import t from "tap";
import { SqliteDatabase } from "../../../src/store/sqlite/database.ts";
import { sqliteCode } from "../../../src/store/sqlite/errors.ts";

t.test("a new store is its owner's only, and has all tables", async (t) => {
  const path = join(t.testdir(), "deep", "er", "gateway.db");
  const database = new SqliteDatabase(path);
  t.teardown(() => database.close());
  const mode = (file: string) => (statSync(file).mode & 0o777).toString(8);
  t.equal(mode(path), "600", "is its owner's only");
  t.equal(mode(`${path}-wal`), "600", "and so is its journal");
  t.equal(mode(join(path, "..")), "700", "and its folder");
  t.equal(database.prepare("pragma journal_mode").get()?.["journal_mode"], "wal", "survives the end of the process");
  const tables = database
    .prepare("select name from sqlite_schema where type = 'table' and name not like 'sqlite_%' order by name")
    .all();
  t.same(
    tables.map(({ name }) => name),
    [
      "audit",
      "journal",
      "kept_value",
      "key",
      "key_group",
      "object",
      "price",
      "signed_out",
      "usage",
      "usage_day",
      "usage_holder",
      "usage_hour",
      "usage_kind",
      "usage_once",
      "usage_pruned",
      "usage_week",
    ],
    "has its tables",
  );
});

t.test(
  "a second connection leaves the first one's lock, without which another program would remove the WAL",
  async (t) => {
    const path = join(t.testdir(), "gateway.db");
    const serving = new SqliteDatabase(path);
    t.teardown(() => serving.close());
    const { ino } = statSync(path);
    const locks = () =>
      readFileSync("/proc/locks", "latin1")
        .split("\n")
        .filter((line) => line.includes(` ${process.pid} `) && line.includes(`:${ino} `));
    t.equal(locks().length, 1);
    const feeding = new SqliteDatabase(path);
    t.teardown(() => feeding.close());
    t.equal(locks().length, 1);
  },
);

/** Holds a new file as another process that creates it at the same moment does, for a fifth of a second. */
const CREATING = `
  const { parentPort, workerData } = require("node:worker_threads");
  const database = new (require("node:sqlite").DatabaseSync)(workerData);
  database.exec("begin immediate; create table other (id)");
  parentPort.postMessage("holds it");
  setTimeout(() => database.exec("rollback"), 200);
`;

t.test("a new store that another process creates at the same moment is opened after it", async (t) => {
  const path = join(t.testdir(), "gateway.db");
  const other = new Worker(CREATING, { eval: true, workerData: path });
  await once(other, "message");
  const database = new SqliteDatabase(path);
  t.teardown(() => database.close());
  t.equal(database.prepare("pragma journal_mode").get()?.["journal_mode"], "wal");
  await once(other, "exit");
});

const MIGRATIONS = readdirSync(new URL("../../../src/store/sqlite/migrations/", import.meta.url)).filter((name) =>
  name.endsWith(".sql"),
).length;

t.test("opening it again leaves everything unchanged", async (t) => {
  const path = join(t.testdir(), "gateway.db");
  const first = new SqliteDatabase(path);
  first.prepare("insert into key (hash, id, name, created) values ('h', 'i', 'n', 1)").run();
  first.close();
  first.close();
  const second = new SqliteDatabase(path);
  t.teardown(() => second.close());
  t.equal(second.prepare("select name from key").get()?.["name"], "n");
  t.equal(second.prepare("pragma user_version").get()?.["user_version"], MIGRATIONS, "every migration ran once");
});

t.test("a transaction that throws leaves nothing behind", async (t) => {
  const database = new SqliteDatabase(":memory:");
  t.teardown(() => database.close());
  const insert = database.prepare("insert into key (hash, id, name, created) values (?, ?, ?, 1)");
  t.throws(
    () =>
      database.transaction(() => {
        insert.run("h", "i", "n");
        throw new Error("on the way");
      }),
    /on the way/,
  );
  t.equal(database.prepare("select count(*) as rows from key").get()?.["rows"], 0);
  t.equal(
    database.transaction(() => "again"),
    "again",
    "and the next one works",
  );
});

t.test("a write waits, without blocking, until another process has written", async (t) => {
  const path = join(t.testdir(), "gateway.db");
  const database = new SqliteDatabase(path);
  const other = new DatabaseSync(path);
  t.teardown(() => {
    database.close();
    other.close();
  });
  other.exec("begin immediate");
  const steps: string[] = [];
  const written = database.durableTransaction(() => {
    steps.push("written");
  });
  await new Promise((resolve) => setTimeout(resolve, 60));
  steps.push("the event loop turned");
  other.exec("commit");
  await written;
  t.same(steps, ["the event loop turned", "written"]);
  t.equal(database.prepare("pragma synchronous").get()?.["synchronous"], 1, "and ordinary writes are fast again");
});

t.test("a file that cannot be written is named, with advice", async (t) => {
  const path = join(t.testdir(), "gateway.db");
  const database = new SqliteDatabase(path);
  t.teardown(() => database.close());
  const insert = () =>
    database
      .prepare("insert into audit (time, who, address, action, subject, detail) values (1, ?, '', '', '', '')")
      .run("x".repeat(100_000));
  const pages = Number(database.prepare("pragma page_count").get()?.["page_count"]);
  database.prepare(`pragma max_page_count = ${pages}`).get();
  const full = await database.durableTransaction(insert).catch((thrown: unknown) => thrown);
  t.match(full, {
    name: "FileError",
    message: `${path}: the disk is full; free space in ${dirname(path)} and try again.`,
  });
  t.equal(sqliteCode(full), 13);
  database.prepare("pragma query_only = on").get();
  await t.rejects(database.retryWhileBusy(insert), {
    name: "FileError",
    message: /gateway\.db: it cannot be written; let this user write/,
  });
});

t.test("an unusable store is refused with its name and the reason", async (t) => {
  const folder = t.testdir();
  const words = join(folder, "words.db");
  writeFileSync(words, "These are words and no database, long enough to fill the head of a file.\n".repeat(20));
  t.throws(() => new SqliteDatabase(words), /words\.db cannot be used: file is not a database/);
  t.match(readFileSync(words, "utf8"), /^These are words/, "a file of another program stays unchanged");

  const other = join(folder, "other.db");
  const owner = new DatabaseSync(other);
  owner.exec("create table mine (id integer)");
  owner.close();
  const unchanged = readFileSync(other);
  t.throws(
    () => new SqliteDatabase(other),
    /other\.db cannot be used: it belongs to another program; name another file/,
  );
  t.same(readFileSync(other), unchanged);

  mkdirSync(join(folder, "folder.db"));
  const elsewhere =
    /cannot be used: .*; store: \{ ledger: "sqlite:\/PATH\/gateway\.db" \} names a folder that can be written\.$/;
  t.throws(() => new SqliteDatabase(join(folder, "folder.db")), elsewhere);
  t.throws(() => new SqliteDatabase(join(words, "data/gateway.db")), elsewhere, "nor can its folder be made");

  const present = join(folder, "present.db");
  new SqliteDatabase(present).close();
  mkdirSync(`${present}-wal`);
  t.throws(
    () => new SqliteDatabase(present),
    /present\.db cannot be used: .*; let this user read and write it and its folder/,
  );

  const future = join(folder, "future.db");
  const newer = new DatabaseSync(future);
  newer.exec("pragma user_version = 99");
  newer.close();
  t.throws(() => new SqliteDatabase(future), /made by a newer version of model-gateway/);
});
