import t from "tap";
import { Database } from "../../../src/store/sqlite/database.ts";
import { SqliteSignedOut } from "../../../src/store/sqlite/signed-out.ts";

t.test("a session that cannot be ended is told", async (t) => {
  const database = new Database(":memory:");
  const sessions = new SqliteSignedOut(database);
  database.close();
  await t.rejects(sessions.add("one", 1));
});

t.test("what one process ends has ended for another", async (t) => {
  const file = `${t.testdir()}/gateway.db`;
  const [one, other] = [new Database(file), new Database(file)];
  await new SqliteSignedOut(one).add("one", Date.now() + 1000);
  t.equal(await new SqliteSignedOut(other).has("one"), true);
  one.close();
  other.close();
});
