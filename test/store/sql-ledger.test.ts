import { join } from "node:path";
import t from "tap";
import { entryToRow } from "../../src/store/ledger-row.ts";
import type { SqlLedger } from "../../src/store/sql-ledger.ts";
import { SqliteDatabase } from "../../src/store/sqlite/database.ts";
import { SqliteLedger } from "../../src/store/sqlite/ledger.ts";
import { entry } from "../support/ledger-contract.ts";

t.test("every query includes the rows that are buffered; a page of what is stored does not", async (t) => {
  const time = Date.UTC(2026, 10, 20);
  const queries: Record<string, (ledger: SqlLedger) => Promise<unknown>> = {
    recent: (ledger) => ledger.recent(1),
    search: (ledger) => ledger.search({ limit: 1 }),
    entries: (ledger) => Array.fromAsync(ledger.entries({})),
    sums: (ledger) => ledger.sums({ by: ["key"] }),
    speeds: (ledger) => ledger.speeds({}),
    failures: async (ledger) => (await ledger.failures({})).exchanges,
    countedNames: (ledger) => ledger.countedNames(1),
    lastUsed: async (ledger) => [...(await ledger.lastUsed(["k"]))],
    reach: async (ledger) => ((await ledger.reach({ key: "k" }, 1)) === undefined ? [] : ["found"]),
  };
  for (const [name, query] of Object.entries(queries)) {
    const database = new SqliteDatabase(join(t.testdir(), `${name}.db`));
    t.teardown(() => database.close());
    const ledger = new SqliteLedger(database);
    ledger.appendRow(
      entryToRow(
        entry({ id: "1", time, key: "k", outcome: name === "failures" ? "failed" : "completed", once: "up resp_1" }),
      ),
    );
    t.same(await ledger.page({}), []);
    t.match(await query(ledger), { length: 1 }, name);
    t.match(await ledger.page({}), [{ id: "1" }], "the query has written it");
  }
});
