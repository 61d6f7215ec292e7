import { closeSync, openSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { printFailure } from "../../../src/cli/verb.ts";
import { openStores } from "../../../src/store/open.ts";
import { SqliteDatabase } from "../../../src/store/sqlite/database.ts";
import { isDamage, sqliteCode, storeErrorMessage } from "../../../src/store/sqlite/errors.ts";
import { SqliteLedger } from "../../../src/store/sqlite/ledger.ts";
import { plainEntry } from "../../support/plain-entry.ts";

const ADVICE = /the store's file is damaged: .*move it away, leave the journals beside it, and restore a backup/;

/** A store in which the first pages of the tables of keys and rows are overwritten. */
async function damaged(path: string): Promise<SqliteDatabase> {
  const database = new SqliteDatabase(path);
  const ledger = new SqliteLedger(database);
  ledger.append(plainEntry(Date.now(), {}));
  await ledger.close();
  const roots = database.prepare("select rootpage from sqlite_master where name in ('key', 'usage')").all();
  database.prepare("pragma journal_mode = delete").get();
  database.close();
  const file = openSync(path, "r+");
  for (const { rootpage } of roots) writeSync(file, Buffer.alloc(4096, 0xa5), 0, 4096, (Number(rootpage) - 1) * 4096);
  closeSync(file);
  return new SqliteDatabase(path);
}

t.test("a damaged store's message says what to do: of a command, in the log, and at the start", async (t) => {
  const folder = t.testdir();
  const database = await damaged(join(folder, "pages.db"));
  const thrown: unknown = await Promise.try(() => database.prepare("select * from key").get()).catch(
    (error: unknown) => error,
  );
  t.ok(isDamage(thrown));
  const printed: string[] = [];
  t.equal(printFailure(thrown, { err: (line) => printed.push(line) }), 1);
  t.match(printed.join(), ADVICE);
  const warnings: string[] = [];
  const ledger = new SqliteLedger(database, (message) => warnings.push(message));
  ledger.append(plainEntry(Date.now(), {}));
  await ledger.close();
  t.match(warnings.join("\n"), ADVICE);
  const stores = openStores(database.path, [], () => {});
  await t.rejects(stores.ledger.recent(1), { message: ADVICE }, "of a query in the ledger's thread");
  await stores.close();
  database.close();
  const other = join(folder, "other.db");
  writeFileSync(other, "not a database ".repeat(1000));
  t.throws(() => new SqliteDatabase(other), { message: ADVICE });
});

t.test("any other error has its own message", async (t) => {
  t.notOk(isDamage(new Error("database disk image is malformed")));
  t.equal(storeErrorMessage(new Error("no")), "no");
  t.equal(storeErrorMessage("text"), "text");
});

t.test("only SQLite's errors have a code", async (t) => {
  const database = new SqliteDatabase(":memory:");
  t.teardown(() => database.close());
  const insert = database.prepare("insert into key (hash, id, name, created) values ('h', 'i', 'n', 1)");
  insert.run();
  try {
    insert.run();
    t.fail("the same row twice");
  } catch (error) {
    t.equal(sqliteCode(error), 19, "the primary one: a constraint");
  }
  t.equal(sqliteCode(new Error("other")), undefined);
  t.equal(sqliteCode("text"), undefined);
});
