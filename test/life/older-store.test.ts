import { join } from "node:path";
import t, { type Test } from "tap";
import { connectMaintenance, connectStores, type Stores } from "../../src/store/open.ts";
import type { StoreLocation } from "../../src/store/postgres/place.ts";
import { folderFor } from "../support/folder.ts";
import { type OlderStore, olderStore, olderText, writeOlderSqlite } from "../support/older-store.ts";
import { placeOf, startPostgres } from "../support/postgres.ts";

/** Opens a store that older code wrote, which upgrades it, and compares its contents with what that code reported. */
async function upgraded(t: Test, place: StoreLocation, expected: OlderStore): Promise<void> {
  const care = await connectMaintenance(place);
  t.ok(care.migrated.from > 0 && care.migrated.from < care.migrated.to, "there is a migration to run");
  t.same(await care.verify(() => {}), [], "sums of hours, days and weeks match the rows");
  await care.close();
  const stores = await connectStores(place, [], (message) => t.fail(message));
  try {
    await keysOpen(t, stores, expected);
    await usageIsKept(t, stores, expected);
  } finally {
    await stores.close();
  }
}

async function keysOpen(t: Test, { keys }: Stores, { valid, revoked }: OlderStore): Promise<void> {
  const alice = { name: "alice", group: "acme/research", owner: "Alice", tags: { app: "search" } };
  t.match(await keys.find(valid.alice), alice);
  const limits = { rpm: 600, budgets: [{ nano: 5e9, per: "month", soft: false }] };
  t.match(await keys.find(valid.bob), { name: "bob", group: "acme", models: ["echo"], limits });
  t.match(await keys.find(revoked), { name: "carol", revoked: Number });
}

async function usageIsKept(t: Test, { ledger }: Stores, { rows, usage }: OlderStore): Promise<void> {
  const sums = await ledger.sums({ by: ["key", "group", "model"] });
  const named = sums.map(({ group: [key, group, model], assumedCost: _, ...sum }) => ({ key, group, model, ...sum }));
  t.ok(
    sums.every(({ assumedCost }) => assumedCost === 0),
    "nothing is known of older rows",
  );
  const inOrder = (all: object[]) => all.map((each) => JSON.stringify(each, Object.keys(each).sort())).sort();
  t.same(inOrder(named), inOrder(usage));
  const entries = await Array.fromAsync(ledger.entries({}));
  t.equal(entries.length, rows);
  const total = (numbers: (number | undefined)[]) => numbers.reduce<number>((sum, each = 0) => sum + each, 0);
  t.equal(total(entries.map(({ cost }) => cost)), total(usage.map(({ cost }) => cost)));
  t.equal(total(entries.map((entry) => entry.usage?.in.total)), total(usage.map(({ tokensIn }) => tokensIn)));
  t.equal(total(entries.map((entry) => entry.usage?.out.total)), total(usage.map(({ tokensOut }) => tokensOut)));
  t.ok(rows > 10 && usage.every(({ cost, failed }) => cost > 0 || failed > 0), "there are values to lose");
  t.equal(entries.filter(({ group }) => group === "acme/research").length, 5);
}

t.test("a SQLite file written by an older version keeps its keys, rows, tokens and costs", async (t) => {
  const ledger = join(folderFor(t), "gateway.db");
  await upgraded(t, { ledger }, writeOlderSqlite(ledger));
});

t.test("a PostgreSQL database written by an older version keeps them too", async (t) => {
  const server = await startPostgres(t);
  if (!server) return;
  const url = await server.database();
  await server.ask(url, olderText("postgres"));
  const postgres = { ...placeOf(url), journal: join(folderFor(t), "journal") };
  await upgraded(t, { ledger: url, postgres }, olderStore("postgres"));
});
