import t from "tap";
import { PostgresLedger } from "../../../src/store/postgres/ledger.ts";
import { copyInstructions, PostgresMaintenance } from "../../../src/store/postgres/maintenance.ts";
import { openPostgres } from "../../../src/store/postgres/migrations.ts";
import { entry } from "../../support/ledger-contract.ts";
import { placeOf, startPostgres } from "../../support/postgres.ts";

const HOUR = 3_600_000;
const DAY = Date.UTC(2026, 10, 20);
const server = await startPostgres(t);

if (server) {
  t.test("sums that are not those of their rows are found, whichever is missing", async (t) => {
    const url = await server.database();
    const { database } = await openPostgres(placeOf(url), 2);
    t.teardown(() => database.close());
    const ledger = new PostgresLedger(database, (told) => t.fail(told));
    for (const hour of [0, 1, 2, 3])
      for (const at of [0, 7]) ledger.append(entry({ time: DAY + hour * HOUR + at, model: `m${hour}`, key: "k" }));
    await ledger.flush();
    const care = await PostgresMaintenance.open(placeOf(url));
    t.teardown(() => care.close());
    t.match(care.migrated, { from: care.migrated.to });
    const told: string[] = [];
    const verify = () => care.verify((text) => told.push(text));
    t.same(await verify(), []);
    await server.ask(url, "delete from usage_hour where model = 'm0'");
    await server.ask(url, `delete from usage where time = ${DAY + HOUR}`);
    await server.ask(url, "update usage_hour set tokens_out = tokens_out + 1 where model = 'm2'");
    await server.ask(url, "update usage_week set cost = cost + 1 where model = 'm3'");
    const problems = await verify();
    t.equal(problems.pop(), "the sums of the week from 2026-11-19 UTC are not those of its days");
    t.equal(problems.pop(), "the sums of the day 2026-11-20 UTC are not those of its hours");
    t.equal(problems.length, 3);
    for (const [i, problem] of problems.entries())
      t.equal(problem, `the sums of 2026-11-20 0${i}h UTC, key k, model m${i}, target p:m are not those of their rows`);
  });

  t.test("old rows are taken away, and copies are PostgreSQL's own business", async (t) => {
    const url = await server.database();
    const care = await PostgresMaintenance.open(placeOf(url));
    t.teardown(() => care.close());
    t.equal(await care.prune(DAY, () => {}), 0);
    t.same(await care.audit.list(10), []);
    t.same(await care.verify(() => {}), []);
    await t.rejects(care.backup(), { message: /^PostgreSQL makes its own copies: pg_dump .*--schema=model_gateway/ });
    t.notMatch(copyInstructions({ ...placeOf(url), password: "never-shown" }), /never-shown/);
  });
}
