import { join } from "node:path";
import t from "tap";
import { SqliteDatabase } from "../../../src/store/sqlite/database.ts";
import { SqliteObjects } from "../../../src/store/sqlite/objects.ts";

const file = { id: "file-1", provider: "up", key: "one", time: 1 };

t.test("all created objects are written or none, also while another process writes", async (t) => {
  const path = join(t.testdir(), "gateway.db");
  const [one, other] = [new SqliteDatabase(path), new SqliteDatabase(path)];
  t.teardown(() => {
    one.close();
    other.close();
  });
  const objects = new SqliteObjects(one);
  const wrong = { ...file, id: "file-2", time: undefined as unknown as number };
  await t.rejects(objects.insert([file, wrong]));
  t.same(objects.find("file-1"), []);
  other.prepare("begin immediate").run();
  const inserted = objects.insert([file, { ...file, key: "two" }, { ...file, provider: "other" }]);
  setTimeout(() => other.prepare("rollback").run(), 50);
  await inserted;
  const { time: _, ...kept } = file;
  t.same(new SqliteObjects(other).find("file-1"), [{ ...kept, provider: "other" }, kept], "the first key's");
});
