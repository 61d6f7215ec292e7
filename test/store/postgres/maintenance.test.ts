import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { PostgresKeys } from "../../../src/store/postgres/keys.ts";
import { PostgresLedger } from "../../../src/store/postgres/ledger.ts";
import { copyInstructions, PostgresMaintenance } from "../../../src/store/postgres/maintenance.ts";
import { openPostgres } from "../../../src/store/postgres/migrations.ts";
import { entry } from "../../support/ledger-contract.ts";
import { openDatabase, placeOf, postgresBinaries, startPostgres } from "../../support/postgres.ts";

const DOC = new URL("../../../docs/store.md", import.meta.url);
const HOUR = 3_600_000;
const DAY = Date.UTC(2026, 10, 20);
const server = await startPostgres(t);

if (server) {
  t.test("sums that do not match their rows are found, whichever is missing", async (t) => {
    const url = await server.database();
    const database = await openDatabase(t, url, 2);
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

  t.test("old rows are deleted, and backups are left to PostgreSQL", async (t) => {
    const url = await server.database();
    const care = await PostgresMaintenance.open(placeOf(url));
    t.teardown(() => care.close());
    t.equal(await care.prune(DAY, () => {}), 0);
    t.same(await care.audit.list(10), []);
    t.same(await care.verify(() => {}), []);
    await t.rejects(care.backup(), { message: /^PostgreSQL makes its own copies: pg_dump .*--schema=model_gateway/ });
    t.notMatch(copyInstructions({ ...placeOf(url), password: "never-shown" }), /never-shown/);
  });

  for (const version of ["this", "an older"])
    t.test(
      `the documented commands restore a copy of ${version} version, and keep what has happened to keys since`,
      async (t) => {
        const url = await server.database();
        const { database } = await openPostgres(placeOf(url), 2);
        const ledger = new PostgresLedger(database, (told) => t.fail(told));
        ledger.append(entry({ time: DAY, model: "m", key: "k" }));
        await ledger.flush();
        const keys = new PostgresKeys(database, []);
        const names = ["kept", "leaked", "off", "rotated"];
        for (const name of names) await keys.create({ name });
        const commands = [
          ...readFileSync(DOC, "utf8").matchAll(/^(?:pg_dump|pg_restore|psql|npm start -- store migrate\b)(?: .*)?$/gm),
        ].map(([line]) => line);
        t.equal(commands.length, 6);
        const file = join(t.testdir(), "copy");
        const migrate = async () => {
          await (await PostgresMaintenance.open(placeOf(url))).close();
        };
        const run = (command = "") => {
          if (command.startsWith("npm")) return migrate();
          const text = command.replaceAll("'postgres://USER@HOST:5432/DATABASE'", `'${url}'`).replace("FILE", file);
          execFileSync("bash", ["-c", text], { stdio: "pipe", env: { PATH: `${postgresBinaries()}:/usr/bin:/bin` } });
        };
        if (version === "an older")
          await server.ask(
            url,
            "alter table object drop column credential; drop table key_group; drop index usage_holder_digests; alter table usage_holder add constraint usage_holder_group_path_tags_key unique (group_path, tags); delete from migration where number > 10",
          );
        run(commands.shift());
        await migrate();
        await keys.revoke("leaked");
        await keys.disable("off");
        await keys.disableGroup("acme");
        const rotated = await keys.rotate("rotated", 0);
        await keys.create({ name: "new" });
        ledger.append(entry({ time: DAY + 1, model: "m", key: "k" }));
        await ledger.close();
        keys.close();
        await database.close();
        for (const command of commands) await run(command);

        const restored = await openPostgres(placeOf(url), 2);
        t.teardown(() => restored.database.close());
        const found = new PostgresKeys(restored.database, []);
        t.teardown(() => found.close());
        const records = await found.list();
        t.same(records.map(({ name }) => name).toSorted(), names);
        t.ok(records.find(({ name }) => name === "leaked")?.revoked);
        t.ok(records.find(({ name }) => name === "off")?.disabled);
        t.same([...(await found.listDisabledGroups()).keys()], ["acme"]);
        t.equal((await found.find(rotated?.key ?? ""))?.name, "rotated");
        t.same(await server.ask(url, "select count(*)::int as rows from usage"), [{ rows: 1 }]);
        for (const helper of ["keys_now", "groups_now"])
          t.same(await server.ask(url, `select to_regclass('public.${helper}') as helper`), [{ helper: null }]);
      },
    );
}
