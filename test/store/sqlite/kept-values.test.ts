import t from "tap";
import { SqliteDatabase } from "../../../src/store/sqlite/database.ts";
import { SqliteKeptValues } from "../../../src/store/sqlite/kept-values.ts";
import { keptValuesContract } from "../../support/kept-values-contract.ts";

keptValuesContract(t, async (t) => {
  const file = `${t.testdir()}/gateway.db`;
  const databases = [new SqliteDatabase(file), new SqliteDatabase(file)] as const;
  t.teardown(() => {
    for (const database of databases) database.close();
  });
  return [new SqliteKeptValues(databases[0]), new SqliteKeptValues(databases[1])];
});

t.test("a store that does not respond is reported", async (t) => {
  const database = new SqliteDatabase(":memory:");
  const values = new SqliteKeptValues(database);
  database.close();
  await t.rejects(values.get("a", "b"));
  await t.rejects(values.set("a", "b", Buffer.alloc(1), { milliseconds: 1, bytes: 1 }));
});
