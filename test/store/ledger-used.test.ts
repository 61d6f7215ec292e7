import t, { type Test } from "tap";
import type { Ledger } from "../../src/store/ledger.ts";
import { PostgresLedger } from "../../src/store/postgres/ledger.ts";
import { SqliteDatabase } from "../../src/store/sqlite/database.ts";
import { SqliteLedger } from "../../src/store/sqlite/ledger.ts";
import { plainEntry } from "../support/plain-entry.ts";
import { openDatabase, startPostgres } from "../support/postgres.ts";

// Before any test: with none left to run the file is over, and its server is stopped.
const server = await startPostgres(t);

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

function lastUses(where: string, open: (t: Test) => Promise<Ledger>): void {
  t.test(`${where}: the hour in which a key was last used is found, however long ago that was`, async (t) => {
    const ledger = await open(t);
    t.same([...(await ledger.lastUsed(["new"]))], [], "nothing was used yet");
    // A Thursday, on which a week of sums begins.
    const week = Date.UTC(2026, 10, 19);
    const times: Record<string, number> = {
      now: week + 3 * DAY + 5 * HOUR + 12_345,
      first: week - 9 * 7 * DAY,
      "last of its week": week - 1,
      "first of its week": week,
      "last of its day": week + DAY - 1,
      "o'dd": week - 20 * DAY + 7,
    };
    for (const [key, time] of Object.entries(times)) {
      ledger.append(plainEntry(time, { key }));
      for (const before of [HOUR, DAY, 30 * DAY]) {
        ledger.append(plainEntry(time - before, { key: key === "first" ? "" : key }));
      }
    }
    const found = await ledger.lastUsed([...Object.keys(times), "never"]);
    t.same(
      Object.fromEntries(found),
      Object.fromEntries(Object.entries(times).map(([key, time]) => [key, time - (time % HOUR)])),
    );
  });
}

lastUses("SQLite", async (t) => {
  const database = new SqliteDatabase(":memory:");
  const ledger = new SqliteLedger(database);
  t.teardown(async () => {
    await ledger.close();
    database.close();
  });
  return ledger;
});

if (server)
  lastUses("PostgreSQL", async (t) => {
    const database = await openDatabase(t, await server.database(), 3);
    return new PostgresLedger(database);
  });
