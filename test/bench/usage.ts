// Measures `usage` over many rows, in SQLite and in PostgreSQL (if installed), whose results must be equal.
// node_modules/.bin/node --import ./src/loader/register.js test/bench/usage.ts [rows] [kinds of rows] [days that they span]
// [rounds]
import { readFileSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";
import t from "tap";
import { newId } from "../../src/core/id.ts";
import type { LedgerEntry, LedgerGroup, LedgerQuery, LedgerSum } from "../../src/store/ledger.ts";
import { PostgresLedger } from "../../src/store/postgres/ledger.ts";
import { openPostgres } from "../../src/store/postgres/migrations.ts";
import { SqliteDatabase } from "../../src/store/sqlite/database.ts";
import { SqliteLedger } from "../../src/store/sqlite/ledger.ts";
import { placeOf, startPostgres } from "../support/postgres.ts";

const [ROWS = 1_000_000, KINDS = 2000, DAYS = 62, ROUNDS = 7] = process.argv.slice(2).map(Number);
const DAY = 86_400_000;
const KEYS = 250;
const NOW = Date.now();

/** Returns the nth row: all kinds in turn, so that an hour has the maximum number of sums. */
function entry(n: number): LedgerEntry {
  const [key, other] = [(n % KINDS) % KEYS, Math.floor((n % KINDS) / KEYS)];
  const time = Math.floor(NOW - DAYS * DAY * (1 - n / ROWS));
  return {
    ...{
      id: newId(time),
      time,
      key: `key_${String(key).padStart(12, "0")}`,
      group: `team-${key % 12}/part-${key % 30}`,
    },
    ...{ tags: { app: `app-${key % 15}` }, model: `vendor/model-${other % 4}-large` },
    ...{ target: `provider-${other % 2}:model-${other}-2026-01-01`, protocol: "openai-chat", operation: "chat" },
    ...{ status: 200, outcome: "completed", streaming: true, firstByte: 100, duration: 1000, source: "reported" },
    attempts: [{ target: "", status: 200, startedAt: 2 }],
    usage: { in: { total: 200 + (n % 20_000), cached: 0 }, out: { total: 20 + (n % 2000), reasoning: 0 }, raw: {} },
    cost: 1000 + (n % 1_000_000),
  };
}

interface Store {
  readonly name: string;
  readonly ledger: PostgresLedger | SqliteLedger;
  /** Milliseconds of CPU used by queries so far. */
  cpu(): number;
}

async function stores(): Promise<Store[]> {
  t.setTimeout(DAY);
  const database = new SqliteDatabase(`${t.testdir()}/gateway.db`);
  const ownCpu = () => {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1000;
  };
  const sqlite = { name: "SQLite", ledger: new SqliteLedger(database, console.warn), cpu: ownCpu };
  t.teardown(() => database.close());
  const server = await startPostgres(t);
  if (!server) return [sqlite];
  // One connection, so that one server process runs all queries.
  const { database: remote } = await openPostgres(placeOf(await server.database()), 1);
  t.teardown(() => remote.close());
  const [backend] = await remote.query("select pg_backend_pid() as pid");
  const serverCpu = () => Number(readFileSync(`/proc/${backend?.["pid"]}/schedstat`, "utf8").split(" ")[0]) / 1e6;
  return [sqlite, { name: "PostgreSQL", ledger: new PostgresLedger(remote, console.warn), cpu: serverCpu }];
}

async function fill({ name, ledger }: Store): Promise<void> {
  const begun = performance.now();
  for (let n = 0; n < ROWS; n++) {
    ledger.append(entry(n));
    if (n % 20_000 === 0) await ledger.flush();
  }
  await ledger.flush();
  const seconds = (performance.now() - begun) / 1000;
  console.log(`${name}: ${ROWS} rows of ${KINDS} kinds in ${DAYS} days, ${Math.round(ROWS / seconds)} a second`);
}

const SPANS: Record<string, number> = { all: 0, "29 days": NOW - 29 * DAY, "24 hours": NOW - DAY };
const BY: readonly LedgerGroup[][] = [
  [],
  ["key"],
  ["group"],
  ["model"],
  ["target"],
  ["tag"],
  ["day"],
  ["model", "day"],
];

/** Sorts sums in a fixed order, as the order of equal costs is arbitrary. */
const sorted = (sums: readonly LedgerSum[]): LedgerSum[] =>
  sums.toSorted((a, b) => (a.group.join("\0") < b.group.join("\0") ? -1 : 1));

/** Returns minimum CPU, and minimum, median and maximum time of a query. */
async function measure({ ledger, cpu }: Store, query: LedgerQuery): Promise<string> {
  await ledger.sums(query);
  const [cpus, walls]: [number[], number[]] = [[], []];
  for (let round = 0; round < ROUNDS; round++) {
    const [used, begun] = [cpu(), performance.now()];
    await ledger.sums(query);
    walls.push(performance.now() - begun);
    cpus.push(cpu() - used);
  }
  walls.sort((a, b) => a - b);
  const told = [Math.min(...cpus), walls[0], walls[walls.length >> 1], walls.at(-1)];
  return told.map((ms) => (ms as number).toFixed(0)).join(" | ");
}

const all = await stores();
for (const store of all) await fill(store);
console.log("\n| store | span | by | CPU ms | wall ms, least | median | worst |\n|---|---|---|--:|--:|--:|--:|");
for (const [span, since] of Object.entries(SPANS))
  for (const by of BY) {
    const told: LedgerSum[][] = [];
    for (const store of all) {
      console.log(`| ${store.name} | ${span} | ${by.join(", ")} | ${await measure(store, { by, since })} |`);
      told.push(sorted(await store.ledger.sums({ by, since })));
    }
    if (!told.every((sums) => isDeepStrictEqual(sums, told[0]))) t.fail(`${span} by ${by}: the stores differ`);
  }

t.end();
