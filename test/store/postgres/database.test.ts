import { readFileSync, writeFileSync } from "node:fs";
import { connect, createServer, type Socket } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import t, { type Test } from "tap";
import { StoreUnavailableError } from "../../../src/core/errors.ts";
import {
  numberPlaceholders,
  PostgresDatabase,
  postgresCode,
  tableExists,
  unusableDatabase,
} from "../../../src/store/postgres/database.ts";
import { listen } from "../../support/listen.ts";
import { openDatabase, placeOf, startPostgres } from "../../support/postgres.ts";
import { until } from "../../support/until.ts";

const server = await startPostgres(t);

/** Opens a database that listens for `changes`, and counts how often it has begun to, and what it has heard. */
async function openListening(t: Test, place: Parameters<typeof PostgresDatabase.open>[0]) {
  const database = await PostgresDatabase.open(place, 1);
  t.teardown(() => database.close());
  const heard = { notifications: 0, ready: 0 };
  const end = database.listen(
    "changes",
    () => heard.notifications++,
    () => heard.ready++,
  );
  t.teardown(end);
  return { database, heard };
}

/** Returns a database's address over a network, and a function from which on that drops all packets of the connections so far. */
async function droppable(t: Test, url: string) {
  const direct = placeOf(url);
  const sockets = new Set<Socket>();
  const dropped = new Set<Socket>();
  const between = createServer((socket) => {
    const to = connect(join(direct.host, ".s.PGSQL.5432"));
    for (const [one, other] of [
      [socket, to],
      [to, socket],
    ] as const) {
      sockets.add(one.on("error", () => {}).on("close", () => dropped.has(one) || other.destroy()));
      one.on("data", (bytes) => dropped.has(one) || other.write(bytes));
    }
  });
  const port = await listen(t, between);
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
  });
  const drop = () => {
    for (const socket of sockets) dropped.add(socket);
  };
  return { place: { ...direct, host: "127.0.0.1", port, tls: { mode: "disable" } as const }, drop };
}

t.test("values are written as ? in a statement", async (t) => {
  t.equal(numberPlaceholders("select ? where x = ?"), "select $1 where x = $2");
  t.equal(numberPlaceholders("select 1"), "select 1");
});

t.test("an unusable database is reported with the remedy, and without its password", async (t) => {
  const place = placeOf("postgres://u:never-shown@h/d?sslmode=verify-full");
  for (const [code, said] of [
    ["28P01", /the password of u in store\.ledger is wrong/],
    ["28000", /pg_hba\.conf/],
    ["53300", /max_connections/],
    ["25006", /name the server that can be written/],
    ["53100", /its disk is full: free room there/],
    ["08P01", /a pooler in front of PostgreSQL says so/],
    ["SELF_SIGNED_CERT_IN_CHAIN", /sslrootcert=FILE/],
    ["ERR_TLS_CERT_ALTNAME_INVALID", /sslrootcert=FILE/],
    ["ECONNRESET", /does the server offer TLS/],
  ] as const) {
    const { message } = unusableDatabase(place, Object.assign(new Error("it says no."), { code }));
    t.match(message, /^The store postgres:\/\/u@h:5432\/d cannot be used: it says no; /);
    t.match(message, said);
  }
  t.match(unusableDatabase(place, Object.assign(new Error(""), { code: "ECONNREFUSED" })).message, /ECONNREFUSED; is/);
  t.equal(postgresCode("text"), undefined);
});

t.test("a pooler that cannot reach its server is an unavailable database", async (t) => {
  const fields = Buffer.from("SFATAL\0VFATAL\0C08P01\0Mserver login has been failing, try again later\0\0");
  const head = Buffer.from([0x45, 0, 0, 0, fields.length + 4]);
  const pooler = createServer((socket) => {
    socket.on("error", () => {}).once("data", () => socket.end(Buffer.concat([head, fields])));
  });
  const port = await listen(t, pooler);
  const database = await PostgresDatabase.open(placeOf(`postgres://u@127.0.0.1:${port}/d?sslmode=disable`), 1);
  t.teardown(() => database.close());
  for (const asked of [database.query("select 1"), database.transaction(async () => {})]) {
    const thrown = await asked.catch((error: unknown) => error);
    t.ok(thrown instanceof StoreUnavailableError);
    t.match(thrown, { code: "08P01", message: /: server login has been failing/ });
  }
});

if (server) {
  t.test("a transaction is applied completely, or not at all", async (t) => {
    const database = await openDatabase(t, await server.database(), 2);
    await database.transaction((ask) => ask("insert into usage_once values (?, 0)", "one"));
    const failed = database.transaction(async (ask) => {
      await ask("insert into usage_once values (?, 0)", "two");
      throw new Error("on the way");
    });
    await t.rejects(failed, { message: "on the way" });
    t.same([...(await database.query("select name from usage_once"))], [{ name: "one" }]);
    t.ok(await tableExists(database.query, "usage_once"));
    t.notOk(await tableExists(database.query, "usage_twice"));
  });

  t.test("a server that does not accept writes is named, with advice and without its password", async (t) => {
    const database = await openDatabase(t, await server.database(), 2);
    const written = database.transaction(async (ask) => {
      await ask("set transaction read only");
      await ask("insert into usage_once values (?, 0)", "one");
    });
    const thrown = await written.catch((error: unknown) => error);
    t.match(thrown, {
      name: "FileError",
      message:
        /^PostgreSQL at \S+ \(store: ledger\): cannot execute INSERT in a read-only transaction; name the server that can be written/,
    });
    t.equal(postgresCode(thrown), "25006");
  });

  t.test("a server that refuses new connections is unavailable, and named with advice", async (t) => {
    const url = await server.database();
    await server.ask(url, "create role full login connection limit 0");
    await server.ask(url, "create role rotated login password 'a-new-one'");
    await server.ask("postgres:///postgres", "create database closed allow_connections false");
    const hba = join(server.folder, "data", "pg_hba.conf");
    writeFileSync(hba, `local all rotated scram-sha-256\n${readFileSync(hba, "utf8")}`);
    await server.ask(url, "select pg_reload_conf()");
    for (const [place, code, said] of [
      [{ ...placeOf(url), user: "full" }, "53300", /too many connections for role .*; raise max_connections/],
      [{ ...placeOf(url), user: "rotated" }, "28P01", /the password of rotated in store\.ledger is wrong or missing/],
      [{ ...placeOf(url), user: "nobody_here" }, "28000", /role "nobody_here" does not exist; pg_hba\.conf/],
      [{ ...placeOf(url), database: "none_here" }, "3D000", /database "none_here" does not exist; make it: /],
      [{ ...placeOf(url), database: "closed" }, "55000", /not currently accepting connections; let connections in: /],
    ] as const) {
      const database = await PostgresDatabase.open({ ...place, password: "never-shown" }, 1);
      t.teardown(() => database.close());
      for (const asked of [database.query("select 1"), database.transaction(async () => {})]) {
        const thrown = await asked.catch((error: unknown) => error);
        t.ok(thrown instanceof StoreUnavailableError);
        t.match(thrown, { code, message: said });
        t.match(thrown, { message: /^PostgreSQL at \S+ \(store: ledger\): / });
        t.notMatch((thrown as Error).message, /never-shown/);
      }
    }
  });

  t.test("a transaction whose connection is lost is not applied, and those after it are", async (t) => {
    const database = await openDatabase(t, await server.database(), 2);
    const own = "select pg_backend_pid() as pid";
    for (let round = 0; round < 20; round++) {
      const name = `lost-${round}`;
      const failed = database.transaction(async (ask) => {
        await ask("insert into usage_once values (?, 0)", name);
        const [{ pid } = {}] = await ask(own);
        await database.query("select pg_terminate_backend(?::integer)", Number(pid));
        if (round % 2 === 0) await new Promise((later) => setTimeout(later, round));
        await ask("insert into usage_once values (?, 0)", `${name} again`);
      });
      await t.rejects(failed);
      await database.transaction((ask) => ask("insert into usage_once values (?, 0)", `kept-${round}`));
    }
    // One that is lost between two transactions is made again.
    await database.query(
      "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()",
    );
    await new Promise((later) => setTimeout(later, 50));
    await database.transaction((ask) => ask("insert into usage_once values ('kept', 0)"));
    const names = (await database.query("select name from usage_once")).map(({ name }) => String(name));
    t.equal(names.length, 21);
    t.same(
      names.filter((name) => !name.startsWith("kept")),
      [],
    );
  });

  t.test("a query that times out is abandoned, and later ones use other connections", async (t) => {
    const url = await server.database();
    const { place, drop } = await droppable(t, url);
    const database = await PostgresDatabase.open(place, 2);
    t.teardown(() => database.close());
    t.equal((await database.query("select 1 as one"))[0]?.["one"], 1);
    drop();
    await t.rejects(
      database.withDeadline(300, (ask) => ask("select 2 as two")),
      { message: /^PostgreSQL at postgres:\S+ \(store: ledger\): it has not answered in 300 ms$/ },
    );
    t.equal((await database.query("select 3 as three"))[0]?.["three"], 3);
  });

  t.test("where the network drops the packets of a connection that listens, another one listens instead", async (t) => {
    const url = await server.database();
    const { place, drop } = await droppable(t, url);
    const { database, heard } = await openListening(t, place);
    await until(() => heard.ready === 1, "it to listen");
    await database.query("select 1");
    drop();
    await t.rejects(database.withDeadline(300, (ask) => ask("select 1")));
    await until(() => heard.ready === 2, "it to listen again");
    await server.ask(url, "notify changes");
    await until(() => heard.notifications === 1, "a notification");
  });

  t.test("a standby that refuses LISTEN is asked again, and notifies once it has been promoted", async (t) => {
    const own = await startPostgres(t);
    if (!own) return;
    const url = await own.database();
    await own.stop();
    writeFileSync(join(own.folder, "data", "standby.signal"), "");
    await own.start();
    const { database, heard } = await openListening(t, placeOf(url));
    t.match(await database.query("select pg_is_in_recovery() as standby"), [{ standby: true }]);
    await sleep(500);
    t.equal(heard.ready, 0);
    await own.ask(url, "select pg_promote()");
    await until(() => heard.ready === 1, "it to listen");
    await own.ask(url, "notify changes");
    await until(() => heard.notifications === 1, "a notification");
  });
}
