import { readdirSync } from "node:fs";
import { connect, createServer } from "node:net";
import { join } from "node:path";
import t from "tap";
import { checkDatabase, PostgresDatabase } from "../../../src/store/postgres/database.ts";
import { openPostgres } from "../../../src/store/postgres/migrations.ts";
import { listen } from "../../support/listen.ts";
import { placeOf, startPostgres } from "../../support/postgres.ts";

const FILES = readdirSync(new URL("../../../src/store/postgres/migrations/", import.meta.url)).length;
const server = await startPostgres(t);

if (server) {
  t.test("several that start at the same time migrate the schema once", async (t) => {
    const url = await server.database();
    // A process must see what another one has migrated while it waited.
    const strict = "set default_transaction_isolation = 'repeatable read'";
    await server.ask(url, `alter database ${new URL(url).pathname.slice(1)} ${strict}`);
    const place = placeOf(url);
    const opened = await Promise.all(Array.from({ length: 5 }, () => openPostgres(place, 2)));
    const from = opened.map(({ migrated }) => migrated.from).sort();
    t.same(from, [0, FILES, FILES, FILES, FILES]);
    for (const { database, migrated } of opened) {
      t.equal(migrated.to, FILES);
      t.equal((await database.query("select * from migration")).length, FILES);
      await database.close();
    }
  });

  t.test("a schema that is newer than the program is refused, and left unchanged", async (t) => {
    const url = await server.database();
    await (await openPostgres(placeOf(url), 1)).database.close();
    await server.ask(url, `insert into migration values (${FILES + 1}, 'later.sql', now())`);
    await t.rejects(openPostgres(placeOf(url), 1), { name: "FileError", message: /newer version of model-gateway/ });
  });

  t.test(
    "a user that may not create the schema is told the missing right, and may use one created for it",
    async (t) => {
      const url = await server.database();
      const name = new URL(url).pathname.slice(1);
      await server.ask(url, `create role poor_${name} login`);
      const place = { ...placeOf(url), user: `poor_${name}` };
      await t.rejects(openPostgres(place, 1), {
        name: "FileError",
        message: new RegExp(`permission denied.*grant create on database "${name}" to "poor_${name}"`),
      });
      await server.ask(url, `create schema model_gateway authorization poor_${name}`);
      const { database } = await openPostgres(place, 1);
      t.equal((await database.query("select * from key")).length, 0);
      await database.close();
    },
  );

  t.test("a database that cannot store every text is refused, and left unchanged", async (t) => {
    const place = { ...placeOf(await server.database()), database: `latin_${process.pid}` };
    const url = `postgres:///${place.database}`;
    const made = `create database ${place.database} encoding 'LATIN1' lc_collate 'C' lc_ctype 'C' template template0`;
    await server.ask("postgres:///postgres", made);
    await t.rejects(openPostgres(place, 1), {
      name: "FileError",
      message: /its encoding is LATIN1, .* make it with encoding 'UTF8'\.$/,
    });
    t.same(await server.ask(url, "select 1 from pg_namespace where nspname = 'model_gateway'"), []);
  });

  t.test("a missing database, and a missing user, are reported as such", async (t) => {
    const place = placeOf(await server.database());
    await t.rejects(openPostgres({ ...place, database: "nobody" }, 1), { message: /create database "nobody" owner/ });
    await t.rejects(openPostgres({ ...place, user: "nobody" }, 1), { message: /role "nobody" does not exist/ });
  });

  t.test("one that is down is waited for briefly", async (t) => {
    const own = await startPostgres(t);
    if (!own) return;
    const place = placeOf(await own.database());
    await own.stop();
    await t.rejects(openPostgres({ ...place, password: "never-shown" }, 1), {
      name: "FileError",
      message: /^The store postgres:\/\/\/test_.* cannot be used: .*ENOENT.*; is PostgreSQL running there\?$/,
    });
    const soon = openPostgres(place, 1);
    await own.start();
    await (await soon).database.close();
  });

  t.test(
    "one that ends the connection in the middle of a migration is asked again, as it may be restarting",
    async (t) => {
      const direct = placeOf(await server.database());
      let ended = 0;
      const between = createServer((socket) => {
        const to = connect(join(direct.host, ".s.PGSQL.5432"));
        socket.on("data", (bytes: Buffer) => {
          if (ended > 0 || !bytes.includes("create table key")) return to.write(bytes);
          ended++;
          return socket.resetAndDestroy();
        });
        socket.on("error", () => {}).on("close", () => to.destroy());
        to.on("data", (bytes) => socket.write(bytes));
        to.on("error", () => {}).on("close", () => socket.destroy());
      });
      const place = { ...direct, host: "127.0.0.1", port: await listen(t, between), tls: { mode: "disable" } as const };
      const { database, migrated } = await openPostgres(place, 1);
      t.same(migrated, { from: 0, to: FILES });
      t.equal(ended, 1);
      await database.close();
    },
  );
}

t.test("a pooler that ignores our search_path is reported, as tables would be in another schema", async (t) => {
  const withPath = (path: string) => checkDatabase(async () => [{ encoding: "UTF8", path }]);
  await t.rejects(withPath('"$user", public'), { message: /search_path is "\$user", public, as a pooler ignores/ });
  await t.rejects(withPath("model_gateway_2"), { message: /search_path/ });
  for (const path of ["model_gateway", '"model_gateway", public']) await t.resolves(withPath(path));
});

t.test("a query to a server that does not respond times out", async (t) => {
  const place = placeOf("postgres://u@127.0.0.1:1/d");
  const database = await PostgresDatabase.open(place, 1);
  t.teardown(() => database.close());
  await t.rejects(database.query("select 1"), { code: "ECONNREFUSED" });
});
