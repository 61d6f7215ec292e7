import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import t from "tap";
import { entryToRow } from "../../src/store/ledger-row.ts";
import { openLedgerStore } from "../../src/store/ledger-store.ts";
import { openPostgres } from "../../src/store/postgres/migrations.ts";
import { SqliteDatabase } from "../../src/store/sqlite/database.ts";
import { entry } from "../support/ledger-contract.ts";
import { placeOf, startPostgres } from "../support/postgres.ts";
import { until } from "../support/until.ts";

const server = await startPostgres(t);

t.test("a thread's ledger takes rows and queries, wherever it is", async (t) => {
  const places = [join(t.testdir(), "gateway.db"), ...(server ? [placeOf(await server.database())] : [])];
  if (typeof places[1] === "object") await (await openPostgres(places[1], 1)).database.close();
  for (const place of places) {
    const store = await openLedgerStore(place, true, (told) => t.fail(told));
    store.ledger.appendRow(entryToRow(entry({ id: "1", time: Date.UTC(2026, 0, 1) })));
    store.ledger.appendRow(entryToRow(entry({ id: "2", time: Date.UTC(2026, 4, 1) })));
    await store.ledger.flush();
    t.match(await store.ledger.sums({ by: [] }), [{ requests: 2 }]);
    t.match(await store.ledger.page({}), [{ id: "1" }, { id: "2" }]);
    let removed = 0;
    for await (const rows of store.prune(Date.UTC(2026, 3, 1))) removed += rows;
    t.equal(removed, 1);
    t.match(await store.ledger.recent(5), [{ id: "2" }]);
    t.equal(store.ledger.state, "ok");
    await store.close();
  }
});

t.test("a thread leaves nothing to copy into the file for whoever closes it last", async (t) => {
  const place = join(t.testdir(), "gateway.db");
  const serving = new SqliteDatabase(place);
  const store = await openLedgerStore(place, false, (told) => t.fail(told));
  store.ledger.appendRow(entryToRow(entry({ id: "1", time: Date.UTC(2026, 0, 1) })));
  await store.ledger.flush();
  // SQLite's index of the WAL: how many pages it has, and how many of them are in the file.
  const pages = () => {
    const index = readFileSync(`${place}-shm`);
    return [index.readUInt32LE(16), index.readUInt32LE(96)];
  };
  const [written = 0, before = 0] = pages();
  t.ok(before < written);
  await store.close();
  t.same(pages(), [written, written]);
  serving.close();
});

t.test("closing a database breaks off the question whether it responds, and that is no outage", async (t) => {
  if (!server) return;
  const store = await openLedgerStore(placeOf(await server.database()), false, (told) => t.fail(told));
  store.ledger.probe();
  await setImmediate();
  await store.close();
  await until(() => store.ledger.state === "waiting", "the end of the question");
});

t.test("a row that the store refuses is reported as lost while its ledger is being closed", async (t) => {
  if (!server) return;
  const told: string[] = [];
  const store = await openLedgerStore(placeOf(await server.database()), false, (message) => void told.push(message));
  store.ledger.appendRow(entryToRow(entry({ time: 9e15 })));
  const flushed = store.ledger.flush().catch(() => {});
  await store.close();
  await flushed;
  t.match(told, [/^A ledger entry is lost, for the store refuses it/]);
});
