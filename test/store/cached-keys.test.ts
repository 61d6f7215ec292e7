import t from "tap";
import { keyStoreUnavailable, nameTaken } from "../../src/store/cached-keys.ts";
import { generateKey } from "../../src/store/key-format.ts";
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
