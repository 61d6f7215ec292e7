import t from "tap";
import { SqliteDatabase } from "../../../src/store/sqlite/database.ts";
import { SqliteRevokedSessions } from "../../../src/store/sqlite/revoked-sessions.ts";

t.test("a session that cannot be ended is reported", async (t) => {
  const database = new SqliteDatabase(":memory:");
  const sessions = new SqliteRevokedSessions(database);
  database.close();
  await t.rejects(sessions.add("one", 1));
});

t.test("a session that one process ends has ended for another", async (t) => {
  const file = `${t.testdir()}/gateway.db`;
  const [one, other] = [new SqliteDatabase(file), new SqliteDatabase(file)];
  await new SqliteRevokedSessions(one).add("one", Date.now() + 1000);
  t.equal(await new SqliteRevokedSessions(other).has("one"), true);
  one.close();
  other.close();
});
