import { execFile } from "node:child_process";
import { hash } from "node:crypto";
import { readFileSync, renameSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import t, { type Test } from "tap";
import { GatewayError } from "../../../src/core/errors.ts";
import { generateKey, isValidKey } from "../../../src/store/key-format.ts";
import type { FileKey } from "../../../src/store/key-rows.ts";
import type { KeyChange } from "../../../src/store/keys.ts";
import { SqliteDatabase } from "../../../src/store/sqlite/database.ts";
import { SqliteKeys } from "../../../src/store/sqlite/keys.ts";
import { keysContract } from "../../support/keys-contract.ts";

const CI = "a-key-of-the-operators-own-choice";

/** Keys in a new file, with a clock that stands still until the test moves it. */
function open(t: Test, fileKeys: readonly FileKey[] = []) {
  const path = join(t.testdir(), "gateway.db");
  const database = new SqliteDatabase(path);
  t.teardown(() => database.close());
  const clock = { now: 1_000 };
  const keys = new SqliteKeys(database, fileKeys, () => clock.now);
  return { path, database, clock, keys };
}

keysContract(t, (t) => {
  const { database } = open(t);
  return { view: (fileKeys) => new SqliteKeys(database, fileKeys) };
});

/** Calls a function before each statement that is prepared from now on returns a row. */
function beforeRows(database: SqliteDatabase, call: (sql: string, first: unknown) => void): void {
  const prepare = database.prepare.bind(database);
  database.prepare = (sql) => {
    const statement = prepare(sql);
    const get = statement.get.bind(statement) as (...values: unknown[]) => ReturnType<typeof statement.get>;
    return Object.assign(statement, {
      get: (...values: unknown[]) => {
        call(sql, values[0]);
        return get(...values);
      },
    });
  };
}

/** Counts what reaches SQL. */
function counting(database: SqliteDatabase) {
  const asked: string[] = [];
  beforeRows(database, (sql, id) => sql.includes("id = ?") && asked.push(String(id)));
  return asked;
}

t.test("no change of a key is acknowledged that would be gone with a restart, as its file was replaced", async (t) => {
  const { keys, path } = open(t);
  const { key, record } = await keys.create({ name: "one" });
  renameSync(path, `${path}.away`);
  const said = { name: "FileError", message: /gateway\.db was removed, moved or replaced/ };
  await t.rejects(keys.revoke("one"), said);
  await t.rejects(keys.disableGroup("acme"), said);
  t.equal((await keys.find(key))?.revoked, undefined);
  renameSync(`${path}.away`, path);
  t.ok(await keys.revoke(record.id));
});

t.test("very many keys are listed completely, in the order of their creation", async (t) => {
  const { database, keys } = open(t);
  const insert = database.prepare("insert into key (hash, id, name, created) values (?, ?, ?, ?)");
  const names = Array.from({ length: 2000 }, (_, n) => `key ${n}`);
  database.transaction(() => {
    for (const [n, name] of names.entries()) insert.run(hash("sha256", name), `id${n}`, name, n);
  });
  t.same(
    (await keys.list()).map(({ name }) => name),
    names,
  );
  await keys.create({ name: "last" });
  t.equal((await keys.list()).at(-1)?.name, "last");
});

t.test("a created key is found at once, and stored as its hash only", async (t) => {
  const { keys, path, database } = open(t);
  const { key, record } = await keys.create({ name: "reports", models: ["fast"], expires: 4_000_000_000_000 });
  t.ok(isValidKey(key));
  t.same(keys.find(key), record, "is found, at once and without a promise");
  t.match(record, {
    id: key.split("_")[1],
    name: "reports",
    models: ["fast"],
    expires: 4_000_000_000_000,
    source: "store",
  });
  t.equal(record.hash, hash("sha256", key), "is stored as its SHA-256");
  t.same(await keys.list(), [record], "is listed");
  database.prepare("pragma wal_checkpoint(truncate)").get();
  const bytes = readFileSync(path, "latin1");
  t.ok(bytes.includes(record.hash));
  t.notOk(bytes.includes(key.split("_")[2] as string), "its secret is nowhere in the file");
});

t.test("text that is not a key never reaches SQL", async (t) => {
  const database = new SqliteDatabase(":memory:");
  t.teardown(() => database.close());
  const asked = counting(database);
  const keys = new SqliteKeys(database, [], () => 0);
  const { key } = generateKey();
  for (const text of [
    "",
    "sk-x",
    "' or 1=1 --",
    `${key}'; drop table key; --`,
    `${key.slice(0, -1)}!`,
    // A typing error, which the checksum shows.
    `${key.slice(0, 20)}${key[20] === "a" ? "b" : "a"}${key.slice(21)}`,
    "x".repeat(20_000),
  ]) {
    t.equal(keys.find(text), undefined, text.slice(0, 30));
  }
  t.same(asked, []);
  t.equal(keys.find(key), undefined, "a well-formed unknown key is queried");
  t.equal(keys.find(key), undefined);
  t.same(asked, [key.slice(3, 13)], "once, by its id");
  const [, id = ""] = key.split("_");
  t.equal(keys.find(generateKey(id).key), undefined, "and no other secret of that id is");
  t.equal(asked.length, 1);
});

t.test("changes of another process are seen within 100 ms", async (t) => {
  const { keys, path, clock } = open(t);
  const other = async (code: string) => {
    const root = new URL("../../../", import.meta.url);
    const script = `
      import { SqliteDatabase } from ${JSON.stringify(new URL("src/store/sqlite/database.ts", root).href)};
      import { SqliteKeys } from ${JSON.stringify(new URL("src/store/sqlite/keys.ts", root).href)};
      const keys = new SqliteKeys(new SqliteDatabase(${JSON.stringify(path)}));
      ${code}`;
    const loader = fileURLToPath(new URL("src/loader/register.js", root));
    const { stdout } = await promisify(execFile)(process.execPath, [
      "--import",
      loader,
      "--input-type=module",
      "-e",
      script,
    ]);
    return stdout.trim();
  };
  const key = await other(`console.log((await keys.create({ name: "theirs" })).key)`);
  t.match(keys.find(key), { name: "theirs" }, "a key that was not queried before works at once");
  t.equal(keys.find(key)?.revoked, undefined);
  await other(`await keys.revoke("theirs")`);
  clock.now += 100;
  t.ok(keys.find(key)?.revoked, "a revoked one stops");
});

t.test("a key that another process has just created in place of one works at once", async (t) => {
  const { keys, path, clock } = open(t);
  const { key } = await keys.create({ name: "one" });
  t.ok(keys.find(key));
  const theirs = new SqliteDatabase(path);
  t.teardown(() => theirs.close());
  const rotated = await new SqliteKeys(theirs).rotate("one", 60_000);
  t.match(keys.find(rotated?.key ?? ""), { name: "one" });
  await new SqliteKeys(theirs).rotate("one", 0);
  clock.now += 100;
  t.equal(keys.find(rotated?.key ?? ""), undefined, "and one that it replaced stops soon");
});

t.test("while the store is down", async (t) => {
  const { keys, database, clock } = open(t, [{ name: "ci", key: CI }]);
  const { key } = await keys.create({ name: "known" });
  t.ok(keys.find(key));
  const unknown = generateKey().key;
  database.close();
  const refused = {
    code: "store_unavailable",
    status: 503,
    retryAfter: 5,
    message: /^Whether the key is right is not known, .* This is temporary/,
  };
  clock.now += 9 * 60_000;
  t.match(keys.find(key), { name: "known" }, "known keys continue to work");
  t.throws(() => keys.find(unknown), refused, "an unknown one is not refused as wrong: it may exist");
  t.throws(() => keys.find(unknown), GatewayError);
  t.equal(keys.find("sk-x"), undefined, "a key of another format is still refused as such");
  clock.now += 2 * 60_000;
  t.throws(() => keys.find(key), refused, "for ten minutes");
  t.ok(keys.find(CI), "keys of gateway.yaml always work");
});

t.test("a key of the store can be ended by gateway.yaml while the store is down", async (t) => {
  const { keys, database } = open(t);
  const { key } = await keys.create({ name: "leaked" });
  t.ok(keys.find(key));
  database.close();
  keys.replaceFileKeys([{ name: "leaked-key", hash: hash("sha256", key), expires: 1 }]);
  t.match(keys.find(key), { name: "leaked-key", expires: 1 });
  keys.replaceFileKeys([]);
  t.match(keys.find(key), { name: "leaked" });
});

t.test("a key revoked just before the store went down stays revoked", async (t) => {
  const { keys, database } = open(t);
  const { key } = await keys.create({ name: "gone" });
  t.ok(keys.find(key));
  await keys.revoke("gone");
  database.close();
  t.throws(() => keys.find(key), { code: "store_unavailable", status: 503 });
});

t.test("the cache of unknown keys is limited, and known ones stay in it", async (t) => {
  const { keys } = open(t);
  const { key } = await keys.create({ name: "known" });
  t.ok(keys.find(key));
  for (let made = 0; made < 20_500; made++) keys.find(generateKey().key);
  t.match(keys.find(key), { name: "known" });
  t.ok((keys as unknown as { unknownUntil: Map<string, unknown> }).unknownUntil.size <= 20_000);
  keys.close();
  t.match(keys.find(key), { name: "known" }, "the store outlives the cache");
});

t.test(
  "a wrong key with an existing id costs one look-up in five seconds too, and never affects the right one",
  async (t) => {
    const database = new SqliteDatabase(":memory:");
    t.teardown(() => database.close());
    const asked = counting(database);
    const clock = { now: 1000 };
    const keys = new SqliteKeys(database, [], () => clock.now);
    const { key, record } = await keys.create({ name: "one" });
    t.ok(keys.find(key));
    asked.length = 0;
    for (let i = 0; i < 5; i++) t.equal(keys.find(generateKey(record.id).key), undefined);
    t.equal(asked.length, 1);
    t.ok(keys.find(key));
    await keys.edit("one", { owner: "x" });
    t.match(keys.find(key), { owner: "x" }, "also when it has to be looked up again");
    clock.now += 5001;
    asked.length = 0;
    t.equal(keys.find(generateKey(record.id).key), undefined);
    t.equal(asked.length, 1);
  },
);

t.test("watchers are notified of every change, whichever connection makes it", async (t) => {
  const { keys, path } = open(t, [{ name: "ci", key: CI }]);
  const told: KeyChange[] = [];
  const unsubscribe = keys.watch((change) => told.push(change));
  t.teardown(unsubscribe);
  const { record } = await keys.create({ name: "one" });
  await keys.disable("one");
  await keys.enable("one");
  await keys.revoke("one");
  const { id } = record;
  const secrets = new Map([[record.hash, Number.POSITIVE_INFINITY]]);
  t.same(told, [
    { id, kind: "changed", secrets },
    { id, kind: "disabled" },
    { id, kind: "changed", secrets },
    { id, kind: "revoked" },
  ]);
  keys.replaceFileKeys([]);
  t.same(told.splice(0).at(-1), { id: "ci", kind: "revoked" }, "also of keys that gateway.yaml no longer names");
  const theirs = new SqliteDatabase(path);
  t.teardown(() => theirs.close());
  const others = new SqliteKeys(theirs);
  const made = await others.create({ name: "theirs" });
  await others.revoke("theirs");
  const own = keys as unknown as { clock: () => number };
  own.clock = () => performance.now();
  while (told.length === 0) await new Promise((later) => setTimeout(later, 20));
  t.same(told, [{ id: made.record.id, kind: "revoked" }], "with its new state");
  unsubscribe();
  await keys.create({ name: "two" });
  t.equal(told.length, 1);
});

t.test("a store that cannot answer is not queried again at once, for each query may block everybody", async (t) => {
  const database = new SqliteDatabase(":memory:");
  t.teardown(() => database.close());
  const asked = counting(database);
  const clock = { now: 0 };
  const keys = new SqliteKeys(database, [], () => clock.now);
  database.close();
  for (let i = 0; i < 5; i++) t.throws(() => keys.find(generateKey().key), { code: "store_unavailable", status: 503 });
  t.ok(asked.length <= 1, `${asked.length}`);
  clock.now += 1000;
  for (let i = 0; i < 5; i++) t.throws(() => keys.find(generateKey().key), { code: "store_unavailable", status: 503 });
  t.ok(asked.length <= 2, `${asked.length}`);
});

t.test("queries while a store is at rest get the reason, and do not extend that time", async (t) => {
  const { keys: others, database } = open(t);
  const { key } = await others.create({ name: "one" });
  let down = false;
  beforeRows(database, () => {
    if (down) throw new Error("it is down");
  });
  const clock = { now: 10_000 };
  const keys = new SqliteKeys(database, [], () => clock.now);
  down = true;
  t.throws(() => keys.find(key), { code: "store_unavailable", cause: { message: "it is down" } });
  down = false;
  clock.now += 200;
  t.throws(() => keys.find(key), { code: "store_unavailable", cause: { message: "it is down" } });
  clock.now += 100;
  t.ok(keys.find(key), "a quarter of a second after it failed");
});

t.test("several views of one store in a process agree at once", async (t) => {
  const { keys, database } = open(t);
  const other = new SqliteKeys(database, [], () => 0);
  const { key } = await keys.create({ name: "shared" });
  t.ok(other.find(key));
  await keys.revoke("shared");
  t.ok(other.find(key)?.revoked);
});

t.test("a revoked key gets no new secret", async (t) => {
  const { keys } = open(t);
  const { record } = await keys.create({ name: "one" });
  await keys.revoke(record.id);
  t.equal(await keys.rotate(record.id, 0), undefined);
});
