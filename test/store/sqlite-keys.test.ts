import { execFile } from "node:child_process";
import { hash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import t, { type Test } from "tap";
import { GatewayError } from "../../src/core/errors.ts";
import { newKey, validKey } from "../../src/store/key-format.ts";
import { Database } from "../../src/store/sqlite.ts";
import { type FileKey, SqliteKeys } from "../../src/store/sqlite-keys.ts";

const CI = "a-key-of-the-operators-own-choice";

/** Keys in a new file, with a clock that stands still until the test moves it. */
function open(t: Test, fileKeys: readonly FileKey[] = []) {
  const path = join(t.testdir(), "gateway.db");
  const database = new Database(path);
  t.teardown(() => database.close());
  const clock = { now: 1_000 };
  const keys = new SqliteKeys(database, fileKeys, () => clock.now);
  return { path, database, clock, keys };
}

/** Counts what reaches SQL. */
function counting(database: Database) {
  const asked: string[] = [];
  const prepare = database.prepare.bind(database);
  database.prepare = (sql) => {
    const statement = prepare(sql);
    const get = statement.get.bind(statement) as (...values: unknown[]) => ReturnType<typeof statement.get>;
    return Object.assign(statement, {
      get: (...values: unknown[]) => {
        if (sql.includes("hash = ?")) asked.push(String(values[0]));
        return get(...values);
      },
    });
  };
  return asked;
}

t.test("a key that was made", async (t) => {
  const { keys, path, database } = open(t);
  const { key, record } = await keys.create({ name: "reports", models: ["fast"], expires: 4_000_000_000_000 });
  t.ok(validKey(key));
  t.same(keys.find(key), record, "is found, at once and without a promise");
  t.match(record, {
    id: key.split("_")[1],
    name: "reports",
    models: ["fast"],
    expires: 4_000_000_000_000,
    source: "store",
  });
  t.equal(record.hash, hash("sha256", key), "is kept as its SHA-256");
  t.same(await keys.list(), [record], "is listed");
  database.prepare("pragma wal_checkpoint(truncate)").get();
  const bytes = readFileSync(path, "latin1");
  t.ok(bytes.includes(record.hash));
  t.notOk(bytes.includes(key.split("_")[2] as string), "its secret is nowhere in the file");
});

t.test("a key of gateway.yaml", async (t) => {
  const hashed = "another-key-that-only-its-owner-knows";
  const upper = hash("sha256", hashed).toUpperCase();
  const { keys } = open(t, [
    { name: "ci", key: CI, models: ["fast"], budget: { cost: 1 }, expires: 5 },
    { name: "by-hash", hash: upper },
    { name: "variable-not-set" },
    { name: "empty", key: "" },
  ]);
  const created = { source: "file", created: 0 } as const;
  t.same(keys.find(CI), {
    id: "ci",
    name: "ci",
    models: ["fast"],
    budgeted: true,
    expires: 5,
    hash: hash("sha256", CI),
    ...created,
  });
  t.equal((await keys.list()).length, 2, "one without a value lets nobody in");
  t.equal(keys.find(""), undefined);
  t.match(keys.find(hashed), { id: "by-hash", hash: upper.toLowerCase() }, "may be given by its hash");
  t.equal(await keys.revoke("ci"), false, "is not revoked here");
  t.ok(keys.find(CI));
  keys.adopt([]);
  t.equal(keys.find(CI), undefined, "goes when a new gateway.yaml no longer names it");
});

t.test("text that is no key never reaches SQL", async (t) => {
  const database = new Database(":memory:");
  t.teardown(() => database.close());
  const asked = counting(database);
  const keys = new SqliteKeys(database, [], () => 0);
  const { key } = newKey();
  for (const text of [
    "",
    "sk-x",
    "' or 1=1 --",
    `${key}'; drop table key; --`,
    `${key.slice(0, -1)}!`,
    "x".repeat(20_000),
  ]) {
    t.equal(keys.find(text), undefined, text.slice(0, 30));
  }
  t.same(asked, []);
  t.equal(keys.find(key), undefined, "a well-formed key that nobody made is asked for");
  t.equal(keys.find(key), undefined);
  t.same(asked, [hash("sha256", key)], "once, by its hash");
});

t.test("a revoked key is found as revoked", async (t) => {
  const { keys } = open(t);
  const before = Date.now();
  const one = await keys.create({ name: "one" });
  const two = await keys.create({ name: "two" });
  t.equal(keys.find(one.key)?.revoked, undefined);
  t.equal(await keys.revoke("one"), true, "by name");
  const revoked = keys.find(one.key)?.revoked ?? 0;
  t.ok(revoked >= before, "at once, in the same process");
  t.equal(await keys.revoke(one.record.id), true, "by id, again");
  t.equal(keys.find(one.key)?.revoked, revoked, "which does not change when it happened");
  t.equal(await keys.revoke("one"), false, "its name is nobody's now");
  t.equal(await keys.revoke("nobody"), false);
  t.equal(keys.find(two.key)?.revoked, undefined, "others stay");
  const again = await keys.create({ name: "one" });
  t.not(again.record.id, one.record.id, "and its name may be used again");
});

t.test("several views of one store in a process agree at once", async (t) => {
  const { keys, database } = open(t);
  const other = new SqliteKeys(database, [], () => 0);
  const { key } = await keys.create({ name: "shared" });
  t.ok(other.find(key));
  await keys.revoke("shared");
  t.ok(other.find(key)?.revoked);
});

t.test("a name that cannot be used", async (t) => {
  const { keys } = open(t, [{ name: "ci", key: CI }]);
  await keys.create({ name: "taken" });
  await t.rejects(keys.create({ name: "taken" }), {
    code: "invalid_field",
    status: 409,
    message: /named taken already.*revoke/,
  });
  await t.rejects(keys.create({ name: "ci" }), { code: "invalid_field", status: 409 }, "gateway.yaml has it");
  for (const name of ["", " ", " x", "x ", "a\nb", "a\u001b[2Jb", "x".repeat(101), newKey().key]) {
    await t.rejects(keys.create({ name }), { code: "invalid_field", status: 400, param: "name" }, JSON.stringify(name));
  }
  for (const name of ["x", "Ünï cødé 🗝", "'; drop table key; --", "x".repeat(100)]) {
    t.equal((await keys.create({ name })).record.name, name);
  }
});

t.test("the first key is made once, and only where there is none", async (t) => {
  const { keys, database } = open(t);
  const [one, two] = await Promise.all([keys.ensureFirstKey(), new SqliteKeys(database).ensureFirstKey()]);
  const key = one ?? two ?? "";
  t.equal([one, two].filter((made) => made !== undefined).length, 1);
  t.match(keys.find(key), { name: "first" });
  await keys.revoke("first");
  t.equal(await keys.ensureFirstKey(), undefined, "an operator who revoked it gets no other");
  const other = new Database(":memory:");
  t.teardown(() => other.close());
  t.equal(await new SqliteKeys(other, [{ name: "ci", key: CI }]).ensureFirstKey(), undefined, "gateway.yaml has one");
  t.ok(
    await new SqliteKeys(other, [{ name: "variable-not-set" }]).ensureFirstKey(),
    "gateway.yaml has none that works",
  );
});

t.test("what another process does is seen within 100 ms", async (t) => {
  const { keys, path, clock } = open(t);
  const other = async (code: string) => {
    const root = new URL("../../", import.meta.url);
    const script = `
      import { Database } from ${JSON.stringify(new URL("src/store/sqlite.ts", root).href)};
      import { SqliteKeys } from ${JSON.stringify(new URL("src/store/sqlite-keys.ts", root).href)};
      const keys = new SqliteKeys(new Database(${JSON.stringify(path)}));
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
  t.match(keys.find(key), { name: "theirs" }, "a key nobody asked for before works at once");
  t.equal(keys.find(key)?.revoked, undefined);
  await other(`await keys.revoke("theirs")`);
  clock.now += 100;
  t.ok(keys.find(key)?.revoked, "a revoked one stops");
});

t.test("while the store is down", async (t) => {
  const { keys, database, clock } = open(t, [{ name: "ci", key: CI }]);
  const { key } = await keys.create({ name: "known" });
  t.ok(keys.find(key));
  const unknown = newKey().key;
  database.close();
  const refused = {
    code: "internal",
    status: 503,
    retryAfter: 5,
    message: "The key store cannot answer at the moment.",
  };
  clock.now += 9 * 60_000;
  t.match(keys.find(key), { name: "known" }, "keys seen before go on");
  t.throws(() => keys.find(unknown), refused, "one never seen is not called wrong: nobody knows");
  t.throws(() => keys.find(unknown), GatewayError);
  t.equal(keys.find("sk-x"), undefined, "what is no key of ours is still refused as that");
  clock.now += 2 * 60_000;
  t.throws(() => keys.find(key), refused, "for ten minutes");
  t.ok(keys.find(CI), "keys of gateway.yaml always work");
});

t.test("a key revoked just before the store went down stays revoked", async (t) => {
  const { keys, database } = open(t);
  const { key } = await keys.create({ name: "gone" });
  t.ok(keys.find(key));
  await keys.revoke("gone");
  database.close();
  t.throws(() => keys.find(key), { code: "internal", status: 503 });
});

t.test("memory of unknown keys has an end, and known ones survive it", async (t) => {
  const { keys } = open(t);
  const { key } = await keys.create({ name: "known" });
  for (let made = 0; made < 20_500; made++) keys.find(newKey().key);
  t.match(keys.find(key), { name: "known" });
  t.ok((keys as unknown as { answers: Map<string, unknown> }).answers.size <= 20_000);
  keys.close();
  t.match(keys.find(key), { name: "known" }, "the store outlives what was remembered of it");
});

t.test("keys are listed in the order they were made, also those of one millisecond", async (t) => {
  const database = new Database(":memory:");
  t.teardown(() => database.close());
  const keys = new SqliteKeys(database);
  const names = Array.from({ length: 20 }, (_, i) => `key-${i}`);
  for (const name of names) await keys.create({ name });
  t.same(
    (await keys.list()).map(({ name }) => name),
    names,
  );
});
