import t from "tap";
import { PriceList, type PriceVersion } from "../../src/core/price-list.ts";
import type { PostgresQuery } from "../../src/store/postgres/database.ts";
import { PriceVersions } from "../../src/store/price-versions.ts";
import type { SqlRunner } from "../../src/store/sql-runner.ts";
import { SqliteDatabase } from "../../src/store/sqlite/database.ts";
import { openDatabase, startPostgres } from "../support/postgres.ts";
import { until } from "../support/until.ts";

const terms = (input: number) => new PriceList([{ price: { input, output: 2 } }], "table 1").all;
const server = await startPostgres(t);

t.test("terms are kept under their name, once, whoever keeps them again", async (t) => {
  const databases: [string, SqlRunner][] = [["SQLite", new SqliteDatabase(":memory:")]];
  if (server) databases.push(["PostgreSQL", await openDatabase(t, await server.database(), 1)]);
  for (const [where, database] of databases)
    await t.test(where, async (t) => {
      const prices = new PriceVersions(database);
      const since = () => database.query("select version, since from price order by version");
      await prices.keep([...terms(1), ...terms(3), ...terms(1)]);
      const before = [...(await since())];
      await prices.keep(terms(1));
      await prices.keep([]);
      t.same([...(await since())], before);
      t.equal(before.length, 2);
      // A store keeps the source of the price, not of each figure.
      const { sources, ...first } = terms(1)[0] as PriceVersion;
      t.same(Object.keys(sources ?? {}), ["input", "output"]);
      t.same(await prices.find(first.version), first);
      t.equal(await prices.find("none"), undefined);
      const many = Array.from({ length: 250 }, (_, n) => terms(n + 10)).flat();
      await prices.keep(many);
      t.equal((await since()).length, 252);
      t.match(await prices.find(many.at(-1)?.version ?? ""), { price: { input: 259 } });
    });
});

t.test("gateways that keep the same prices in other orders do not wait for each other", async (t) => {
  if (!server) return;
  const url = await server.database();
  const [first, middle, last] = [1, 3, 5].flatMap(terms).sort((a, b) => (a.version < b.version ? -1 : 1));
  const [one, other, third] = await Promise.all([1, 2, 3].map(() => openDatabase(t, url, 1)));
  if (!first || !middle || !last || !one || !other || !third) throw new Error("there are three of each");
  const waiting =
    "select count(*) as count from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
  let kept: Promise<unknown> = Promise.resolve();
  const insert = async (ask: PostgresQuery) => {
    await ask("insert into price (version, terms, source, since) values (?, '{}', '', 0)", middle.version);
    kept = Promise.all([
      new PriceVersions(one).keep([first, middle, last]),
      new PriceVersions(other).keep([last, middle, first]),
    ]);
    kept.catch(() => {});
    await until(async () => Number((await third.query(waiting))[0]?.["count"]) === 2);
  };
  await third.transaction(insert, 60_000);
  await t.resolves(kept);
});
