import { join } from "node:path";
import { setTimeout as after } from "node:timers/promises";
import t from "tap";
import { openStores } from "../../../src/store/open.ts";
import { SqliteDatabase } from "../../../src/store/sqlite/database.ts";
import { joinChanges, keyChangesSince } from "../../../src/store/sqlite/restore-losses.ts";

t.test("each kind of change of a key has its word, and is kept or undone", async (t) => {
  const folder = t.testdir();
  const path = join(folder, "gateway.db");
  const file = join(folder, "copy.db");
  const stores = openStores(path, [], () => {});
  for (const name of ["same", "revoked", "disabled", "rotated", "changed", "rotated and changed"])
    await stores.keys.create({ name });
  await stores.keys.disableGroup("enabled");
  await stores.keys.disableGroup("as before");
  const database = new SqliteDatabase(path);
  database.prepare("vacuum into ?").run(file);
  await stores.keys.revoke("revoked");
  await stores.keys.disable("disabled");
  await stores.keys.rotate("rotated", 0);
  await stores.keys.edit("changed", { group: "team" });
  await stores.keys.rotate("rotated and changed", 0);
  await stores.keys.edit("rotated and changed", { group: "team" });
  await stores.keys.create({ name: "made" });
  // Times are in milliseconds.
  await after(2);
  await stores.keys.disableGroup("disabled");
  await stores.keys.enableGroup("enabled");
  await stores.close();
  const backup = new SqliteDatabase(file);
  const { retained, undone } = keyChangesSince(database as never, backup as never);
  const told = (changes: readonly string[]) => changes.map((change) => change.replace(/ \(\S+\)/, ""));
  const expected = (...words: string[]) => words.map((word) => `key "${word}" was ${word}`);
  t.same(told(retained), [
    ...expected("revoked", "disabled", "rotated"),
    'key "rotated and changed" was rotated',
    'group "disabled" was disabled',
  ]);
  t.same(told(undone), [
    ...[...expected("changed"), 'key "rotated and changed" was changed', ...expected("made")],
    'group "enabled" was enabled',
  ]);
  const newer = keyChangesSince(backup as never, database as never);
  t.same(
    [...told(newer.retained), ...newer.undone.filter((change) => change.startsWith("group"))],
    [],
    "a store that is older than the backup has nothing to keep",
  );
  backup.close();
  database.close();
});

t.test("long lists are shortened", async (t) => {
  t.equal(
    joinChanges(Array.from({ length: 12 }, (_, i) => `c${i}`)),
    "c0, c1, c2, c3, c4, c5, c6, c7, c8, c9 and 2 more changes",
  );
});
