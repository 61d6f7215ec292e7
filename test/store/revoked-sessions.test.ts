import t from "tap";
import { RevokedSessions } from "../../src/store/revoked-sessions.ts";
import type { SqlRunner } from "../../src/store/sql-runner.ts";
import { SqliteDatabase } from "../../src/store/sqlite/database.ts";
import { openDatabase, startPostgres } from "../support/postgres.ts";

const server = await startPostgres(t);

type Database = SqlRunner & { close(): unknown };

t.test("a session that was ended stays so for all processes until its cookie has expired", async (t) => {
  const file = `${t.testdir()}/gateway.db`;
  const databases: [string, Database, Database][] = [["SQLite", new SqliteDatabase(file), new SqliteDatabase(file)]];
  const url = await server?.database();
  if (url) databases.push(["PostgreSQL", await openDatabase(t, url, 1), await openDatabase(t, url, 1)]);
  for (const [where, one, other] of databases)
    await t.test(where, async (t) => {
      const [sessions, elsewhere] = [new RevokedSessions(one), new RevokedSessions(other)];
      t.equal(await sessions.has("one"), false);
      await sessions.add("one", 1000, 500);
      await sessions.add("one", 1000, 500);
      t.equal(await elsewhere.has("one"), true);
      t.equal(await elsewhere.has("two"), false);
      await sessions.add("two", 3000, 2000);
      t.equal(await sessions.has("one"), false, "its row is not kept forever");
      t.equal(await sessions.has("two"), true);
      await one.close();
      await t.rejects(sessions.add("three", 1));
      await other.close();
    });
});
