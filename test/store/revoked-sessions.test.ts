import t from "tap";
import { openPostgres } from "../../src/store/postgres/migrations.ts";
import { PostgresRevokedSessions } from "../../src/store/postgres/revoked-sessions.ts";
import type { RevokedSessions } from "../../src/store/revoked-sessions.ts";
import { SqliteDatabase } from "../../src/store/sqlite/database.ts";
import { SqliteRevokedSessions } from "../../src/store/sqlite/revoked-sessions.ts";
import { placeOf, startPostgres } from "../support/postgres.ts";

const databases: { close(): Promise<void> }[] = [];
t.after(async () => {
  for (const database of databases) await database.close();
});
const server = await startPostgres(t);

function ended(where: string, made: () => Promise<RevokedSessions>): void {
  t.test(`${where}: a session that was ended stays so until its cookie has expired`, async (t) => {
    const sessions = await made();
    t.equal(await sessions.has("one"), false);
    await sessions.add("one", 1000, 500);
    await sessions.add("one", 1000, 500);
    t.equal(await sessions.has("one"), true);
    t.equal(await sessions.has("two"), false);
    await sessions.add("two", 3000, 2000);
    t.equal(await sessions.has("one"), false, "its row is not kept forever");
    t.equal(await sessions.has("two"), true);
  });
}

ended("SQLite", async () => new SqliteRevokedSessions(new SqliteDatabase(":memory:")));
if (server)
  ended("PostgreSQL", async () => {
    const { database } = await openPostgres(placeOf(await server.database()), 3);
    databases.push(database);
    return new PostgresRevokedSessions(database);
  });
