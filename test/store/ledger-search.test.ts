import t, { type Test } from "tap";
import { newId } from "../../src/core/id.ts";
import type { Ledger, LedgerEntry } from "../../src/store/ledger.ts";
import { PostgresLedger } from "../../src/store/postgres/ledger.ts";
import { SqliteDatabase } from "../../src/store/sqlite/database.ts";
import { SqliteLedger } from "../../src/store/sqlite/ledger.ts";
import { plainEntry } from "../support/plain-entry.ts";
import { openDatabase, startPostgres } from "../support/postgres.ts";

const TIME = Date.UTC(2026, 10, 1);

const entry = (n: number, more: Partial<LedgerEntry> = {}) =>
  plainEntry(TIME + n, {
    ...{ target: "p:v", streaming: true, duration: 1100, firstByte: 100, cost: n },
    usage: { in: { total: 5 }, out: { total: 50 }, raw: undefined },
    ...more,
  });

type Filled = (t: Test, entries: readonly LedgerEntry[]) => Promise<Ledger>;

async function sqlite(t: Test, entries: readonly LedgerEntry[]): Promise<Ledger> {
  const database = new SqliteDatabase(":memory:");
  const made = new SqliteLedger(database);
  t.teardown(async () => {
    await made.close();
    database.close();
  });
  for (const each of entries) made.append(each);
  return made;
}

const server = await startPostgres(t);

async function postgres(t: Test, entries: readonly LedgerEntry[]): Promise<Ledger> {
  const database = await openDatabase(t, (await server?.database()) ?? "", 3);
  const made = new PostgresLedger(database);
  for (const each of entries) made.append(each);
  return made;
}

function searches(where: string, ledger: Filled): void {
  t.test(`${where}: each condition finds its own rows, newest first, and all together`, async (t) => {
    const plain = entry(1);
    const grouped = entry(2, { group: "acme/research", key: "other" });
    const near = entry(3, { group: "acme_x" });
    const failed = entry(4, { status: 502, outcome: "upstream_error", target: "q:w", duration: 9000 });
    const found = await ledger(t, [plain, grouped, near, failed]);
    const ids = async (search: object) => (await found.search({ limit: 10, ...search })).map(({ id }) => id);
    t.same(await ids({}), [failed.id, near.id, grouped.id, plain.id]);
    t.same(await ids({ limit: 2 }), [failed.id, near.id]);
    t.same(await ids({ before: near }), [grouped.id, plain.id]);
    t.same(await ids({ group: "acme" }), [grouped.id], "and its children, but not a group with the same prefix");
    t.same(await ids({ key: "other" }), [grouped.id]);
    t.same(await ids({ status: [500, 599] }), [failed.id]);
    t.same(await ids({ durationAbove: 5000, outcome: "upstream_error", target: "q:w" }), [failed.id]);
    t.same(await ids({ costAbove: 2, model: "m" }), [failed.id, near.id]);
    t.same(await ids({ since: TIME + 2, until: TIME + 3 }), [grouped.id]);
    t.same(await ids({ id: near.id }), [near.id]);
    for (const id of ["", "no-id", newId(TIME + 1), "ffffffff-ffff-7fff-bfff-ffffffffffff"])
      t.same(await ids({ id }), []);
  });

  t.test(`${where}: the age of a number of rows is known, so that a search is split into parts`, async (t) => {
    const found = await ledger(
      t,
      Array.from({ length: 10 }, (_, n) => entry(n, { key: n === 1 ? "rare" : "k" })),
    );
    t.equal(await found.reach({}, 4), TIME + 5);
    t.equal(await found.reach({ before: { time: TIME + 5, id: "" } }, 4), TIME + 1);
    t.equal(await found.reach({ until: TIME + 5 }, 4), TIME);
    t.equal(await found.reach({ since: TIME + 6 }, 4), 0, "there are no more in that span");
    t.equal(await found.reach({}, 10), 0);
    t.equal(await found.reach({ key: "rare", outcome: "completed" }, 4), TIME + 5, "whether they match or not");
    for (const filter of [{ key: "nobody" }, { key: "rare", status: [500, 599] }, { group: "acme" }] as const) {
      t.equal(await found.reach(filter, 4), undefined, `none can match ${JSON.stringify(filter)}`);
      t.same(await found.search({ ...filter, limit: 5 }), []);
    }
    const part = { key: "rare", limit: 5, since: TIME + 5 };
    t.same(await found.search(part), []);
    const rest = await found.search({ ...part, since: TIME, before: { time: TIME + 5, id: "" } });
    t.same(
      rest.map(({ time }) => time),
      [TIME + 1],
    );
  });

  t.test(`${where}: speed is that of completed requests, in total or by a dimension`, async (t) => {
    const slow = entry(2, { target: "q:w", firstByte: 1000, duration: 6000 });
    const found = await ledger(t, [entry(1), slow, entry(3, { outcome: "aborted", duration: 99_999 })]);
    const by = await found.speeds({}, "target");
    t.same(by.map(({ name, requests }) => [name, requests]).sort(), [
      ["p:v", 1],
      ["q:w", 1],
    ]);
    const [all] = await found.speeds({});
    t.match(all, { name: "", requests: 2, firstByte: { count: 2 }, tokensPerSecond: { count: 2 } });
    const rate = by.find(({ name }) => name === "q:w")?.tokensPerSecond?.p50 ?? 0;
    t.ok(rate > 9 && rate < 11, `50 tokens in 5 s: ${rate}`);
  });

  t.test(`${where}: failures are counted by their kind`, async (t) => {
    const refused = { status: 429, outcome: "rejected", target: "" } as const;
    const found = await ledger(t, [
      entry(1),
      entry(2, refused),
      entry(3, refused),
      entry(4, { outcome: "aborted", status: 499 }),
    ]);
    const { exchanges, attempts } = await found.failures({});
    t.same(exchanges, [
      { target: "", model: "m", outcome: "rejected", status: 429, requests: 2 },
      { target: "p:v", model: "m", outcome: "aborted", status: 499, requests: 1 },
    ]);
    t.same(attempts, [], "a refusal of the gateway's, or a disconnect, is no failure of the provider");
  });

  t.test(`${where}: failed attempts are counted by their target, also when another attempt succeeded`, async (t) => {
    const went = { target: "p:v", status: 200, startedAt: 900 };
    const busy = { target: "q:w", status: 429, startedAt: 1 };
    const away = { target: "r:x", error: "upstream_timeout", message: 'It said "status":400.', startedAt: 2 };
    const failed = { status: 502, outcome: "upstream_error" } as const;
    const odd = { target: "p:v", status: 200, startedAt: 1, credential: "B", error: "client_gone" };
    const own = { ...odd, message: '"error":"upstream_timeout","status":500' };
    const found = await ledger(t, [
      entry(1, { attempts: [busy, went] }),
      entry(2, { attempts: [busy, away, went] }),
      entry(3, { attempts: [busy], target: "q:w", status: 429, outcome: "upstream_error" }),
      entry(4, { ...failed, attempts: [{ target: "p:v", status: 502, startedAt: 1 }] }),
      entry(5, { ...failed, attempts: [away, { target: "p:v", status: 502, credential: "B", startedAt: 3 }] }),
      entry(6, { attempts: [went] }),
      entry(7, { outcome: "aborted", status: 499, attempts: [own] }),
      entry(8, { attempts: [{ ...went, credential: "B" }] }),
      entry(9, { outcome: "rejected", status: 403, target: "", attempts: [] }),
    ]);
    const told = { answered: 0 };
    t.same((await found.failures({})).attempts.toSorted(byTarget), [
      { ...told, target: "p:v", status: 502, attempts: 2 },
      { ...told, target: "q:w", status: 429, attempts: 3, answered: 2 },
      { ...told, target: "r:x", error: "upstream_timeout", attempts: 2, answered: 1 },
    ]);
    t.same((await found.failures({ since: TIME + 4, until: TIME + 5 })).attempts, [
      { target: "p:v", status: 502, attempts: 1, answered: 0 },
    ]);
    const requests = (await found.failures({})).exchanges.reduce((sum, each) => sum + each.requests, 0);
    t.equal(requests, 5, "exchanges count as before");
  });
}

const byTarget = (a: { target: string }, b: { target: string }) => a.target.localeCompare(b.target);

searches("SQLite", sqlite);
if (server) searches("PostgreSQL", postgres);
