import t from "tap";
import { Audit } from "../../src/store/audit.ts";
import type { SqlRunner } from "../../src/store/sql-runner.ts";
import { SqliteDatabase } from "../../src/store/sqlite/database.ts";
import { openDatabase, startPostgres } from "../support/postgres.ts";

const server = await startPostgres(t);

t.test("changes are listed newest first, page by page; one that cannot be written is reported", async (t) => {
  const databases: [string, SqlRunner & { close(): unknown }][] = [["SQLite", new SqliteDatabase(":memory:")]];
  if (server) databases.push(["PostgreSQL", await openDatabase(t, await server.database(), 3)]);
  for (const [where, database] of databases)
    await t.test(where, async (t) => {
      const audit = new Audit(database);
      const who = { who: "admin", address: "10.0.0.1" };
      const entry = (i: number) => ({
        time: i,
        ...who,
        action: "keys.create",
        subject: `k${i}`,
        detail: { group: "a" },
      });
      for (let i = 1; i <= 5; i++) await audit.add(entry(i));
      const [newest, second] = await audit.list(2);
      t.match(newest, { id: 5, ...entry(5) });
      const others = await audit.list(10, second?.id);
      t.same(
        others.map(({ subject }) => subject),
        ["k3", "k2", "k1"],
      );
      await audit.add({ ...entry(6), subject: "a\u0000b", detail: { x: "\u0000" } });
      t.match(await audit.list(1), [{ detail: { x: /./ } }], "unusual characters");
      await database.close();
      await t.rejects(audit.add(entry(7)));
    });
});
