import t from "tap";
import type { Audit } from "../../src/store/audit.ts";
import { PostgresAudit } from "../../src/store/postgres/audit.ts";
import { openPostgres } from "../../src/store/postgres/migrations.ts";
import { SqliteAudit } from "../../src/store/sqlite/audit.ts";
import { SqliteDatabase } from "../../src/store/sqlite/database.ts";
import { placeOf, startPostgres } from "../support/postgres.ts";

const databases: { close(): Promise<void> }[] = [];
t.after(async () => {
  for (const database of databases) await database.close();
});
const server = await startPostgres(t);

function trail(where: string, made: () => Promise<Audit>): void {
  t.test(`${where}: changes are listed newest first, page by page`, async (t) => {
    const audit = await made();
    const who = { who: "admin", address: "10.0.0.1" };
    for (let i = 1; i <= 5; i++)
      await audit.add({ time: i, ...who, action: "keys.create", subject: `k${i}`, detail: { group: "a" } });
    const [newest, second] = await audit.list(2);
    t.match(newest, { id: 5, time: 5, ...who, action: "keys.create", subject: "k5", detail: { group: "a" } });
    const others = await audit.list(10, second?.id);
    t.same(
      others.map(({ subject }) => subject),
      ["k3", "k2", "k1"],
    );
  });
}

trail("SQLite", async () => {
  const database = new SqliteDatabase(":memory:");
  return new SqliteAudit(database);
});
if (server)
  trail("PostgreSQL", async () => {
    const { database } = await openPostgres(placeOf(await server.database()), 3);
    databases.push(database);
    return new PostgresAudit(database);
  });
