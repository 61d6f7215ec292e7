import { hash } from "node:crypto";
import t from "tap";
import { keyStoreUnavailable, nameTaken } from "../../src/store/cached-keys.ts";
import { generateKey } from "../../src/store/key-format.ts";
import { type KeyRow, StoredKey } from "../../src/store/key-rows.ts";
import type { KeyChange } from "../../src/store/keys.ts";
import { SqliteDatabase } from "../../src/store/sqlite/database.ts";
import { SqliteKeys } from "../../src/store/sqlite/keys.ts";

t.test("digests of keys that are in use are remembered for ten seconds, and in limited number", async (t) => {
  const database = new SqliteDatabase(":memory:");
  t.teardown(() => database.close());
  const clock = { now: 0 };
  const keys = new SqliteKeys(database, [], () => clock.now);
  const { digests } = keys as unknown as { digests: Map<string, unknown> };
  const { key } = await keys.create({ name: "one" });
  t.ok(keys.find(key));
  for (let i = 0; i < 2000; i++) keys.find(generateKey().key);
  t.same([...digests.keys()], [key], "not those of invalid keys");
  clock.now += 10_001;
  keys.find("x");
  t.equal(digests.size, 0);
});

t.test("a change is not reported once a later one is known, whose secret may be in use already", async (t) => {
  const database = new SqliteDatabase(":memory:");
  t.teardown(() => database.close());
  const keys = new SqliteKeys(database);
  const { record } = await keys.create({ name: "one" });
  const [row] = database.prepare("select * from key").all() as [KeyRow];
  const inside = keys as unknown as { cache: Map<string, StoredKey>; applyChange(key: StoredKey): void };
  const told: KeyChange[] = [];
  t.teardown(keys.watch((change) => told.push(change)));
  inside.cache.set(record.id, new StoredKey({ ...row, hash: "00".repeat(32), changed: 5 }));
  inside.applyChange(new StoredKey({ ...row, changed: 4 }));
  t.same(told, []);
  t.equal(inside.cache.get(record.id)?.changed, 5);
  inside.applyChange(new StoredKey({ ...row, changed: 6 }));
  t.match(told, [{ id: record.id, kind: "changed" }]);
});

t.test("a new gateway.yaml is news of a key only where it says something else of it", async (t) => {
  const database = new SqliteDatabase(":memory:");
  t.teardown(() => database.close());
  const key = "a-key-of-the-operators-own-choice";
  const keys = new SqliteKeys(database, [{ name: "ci", key }]);
  const told: KeyChange[] = [];
  t.teardown(keys.watch((change) => told.push(change)));
  keys.replaceFileKeys([{ name: "ci", key }]);
  t.same(told, []);
  const secrets = (until: number) => new Map([[hash("sha256", key), until]]);
  keys.replaceFileKeys([{ name: "ci", key, models: ["m"] }]);
  t.same(told.splice(0), [{ id: "ci", kind: "changed", secrets: secrets(Number.POSITIVE_INFINITY) }]);
  t.match(keys.find(key), { models: ["m"] });
  const expires = Date.now() + 60_000;
  keys.replaceFileKeys([{ name: "ci", key, expires }]);
  t.same(told.splice(0), [{ id: "ci", kind: "changed", secrets: secrets(expires) }]);
  keys.replaceFileKeys([]);
  t.same(told, [{ id: "ci", kind: "revoked" }]);
  t.equal(keys.find(key), undefined);
});

t.test("errors for names that are in use, and while the store does not respond", async (t) => {
  t.match(nameTaken("one"), {
    code: "invalid_field",
    status: 409,
    message: "There is a key named one already, or with that id.",
  });
  t.match(keyStoreUnavailable(new Error("away")), {
    code: "store_unavailable",
    status: 503,
    retryAfter: 5,
    cause: { message: "away" },
  });
});
