import { existsSync } from "node:fs";
import { registerHooks } from "node:module";
import { join, resolve } from "node:path";
import t from "tap";
import { leftBehindWarnings, storeWarnings } from "../../src/cli/store-warnings.ts";
import { connectStores, openStores } from "../../src/store/open.ts";
import { placeOf, startPostgres } from "../support/postgres.ts";
import { startRedis } from "../support/redis.ts";

const doubts = (url: string) =>
  storeWarnings({
    file: resolve("gateway.yaml"),
    text: `listen: 127.0.0.1:0\nstore: { ledger: "${url}" }\n`,
    store: {
      ...{ ledger: "shown", limits: "memory", durability: "process", keep: 0 },
      postgres: { ...placeOf(url), journal: "/nowhere" },
    },
  });

t.test("a missing package of a configured store is an error, as no start could succeed", async (t) => {
  const hooks = registerHooks({
    resolve(name, context, next) {
      if (name === "postgres" || name === "redis")
        throw Object.assign(new Error("not found"), { code: "ERR_MODULE_NOT_FOUND" });
      return next(name, context);
    },
  });
  t.teardown(() => hooks.deregister());
  t.match(await doubts("postgres://u@127.0.0.1:1/d"), [
    { severity: "error", line: 2, column: 18, message: /^A ledger in PostgreSQL needs .*: npm i postgres@\S*\d/ },
  ]);
  const url = "postgres://u@127.0.0.1:1/d";
  const both = await storeWarnings({
    file: resolve("gateway.yaml"),
    text: `listen: 127.0.0.1:0\nstore:\n  ledger: "${url}"\n  limits: redis://h\n`,
    store: {
      ...{ ledger: "shown", limits: "redis://h", durability: "process", keep: 0 },
      postgres: { ...placeOf(url), journal: "/nowhere" },
    },
  });
  t.match(both, [
    { severity: "error", line: 3 },
    { severity: "error", line: 4, message: /npm i redis@\S*\d/ },
  ]);
});

t.test("a folder of journals that cannot be used is a warning, also where nothing names it", async (t) => {
  const folder = t.testdir({ "notes.txt": "text" });
  const found = async (journal: string, named = "") => {
    const problems = await storeWarnings({
      file: resolve("gateway.yaml"),
      text: `listen: 127.0.0.1:0\nstore:\n  ledger: "postgres://u@127.0.0.1:1/d"\n${named}`,
      store: {
        ...{ ledger: "shown", limits: "memory", durability: "process", keep: 0 },
        postgres: { ...placeOf("postgres://u@127.0.0.1:1/d"), journal },
      },
    });
    return problems.filter(({ message }) => message.includes("journal"));
  };
  const unusable = join(folder, "notes.txt", "journal");
  const warning = { severity: "warning", message: /^The folder of journals cannot be used: ENOTDIR.*store\.journal/ };
  t.match(await found(unusable, `  journal: ${unusable}\n`), [{ ...warning, line: 4 }]);
  t.match(await found(unusable), [warning]);
  t.same(await found(join(folder, "new", "journal")), []);
});

t.test("a path that cannot be a SQLite file's is an error, as no start could succeed", async (t) => {
  const folder = t.testdir({ "notes.txt": "text" });
  const found = (ledger: string) =>
    storeWarnings({
      ...{ file: resolve("gateway.yaml"), text: `listen: 127.0.0.1:0\nstore: { ledger: "sqlite:${ledger}" }\n` },
      store: { ledger: join(folder, ledger), limits: "memory", durability: "process", keep: 0 },
    });
  t.match(await found("notes.txt"), [{ severity: "error", line: 2, column: 18, message: /is no SQLite database/ }]);
  t.match(await found("."), [{ severity: "error", message: /is a folder: name a file in it/ }]);
  t.same(await found("data/gateway.db"), []);
});

const UNWRITABLE = "/proc/sys"; // by root, too
t.test("a SQLite file that this user cannot write is a warning", { skip: !existsSync(UNWRITABLE) }, async (t) => {
  const ledger = `${UNWRITABLE}/data/gateway.db`;
  const text = `listen: 127.0.0.1:0\nstore: { ledger: "sqlite:${ledger}" }\n`;
  const store = { ledger, limits: "memory", durability: "process", keep: 0 } as const;
  t.match(await storeWarnings({ file: resolve("gateway.yaml"), text, store }), [
    { severity: "warning", line: 2, column: 18, message: /gateway\.db cannot be written by this user \(E\w+\), and/ },
  ]);
});

t.test("a Redis that cannot be used is a warning at its position", async (t) => {
  const limits = (url: string) =>
    storeWarnings({
      ...{ file: resolve("gateway.yaml"), text: `listen: 127.0.0.1:0\nstore: { limits: "${url}" }\n` },
      store: { ledger: "gateway.db", limits: url, durability: "process", keep: 0 },
    });
  t.match(await limits("redis://:never-shown@127.0.0.1:1"), [
    {
      ...{ severity: "warning", line: 2, column: 18 },
      message: /^store: limits: 127\.0\.0\.1:1 does not answer \(.*ECONNREFUSED.*\): start it/,
    },
  ]);
  const redis = await startRedis(t, ["--requirepass", "right"]);
  if (!redis) return;
  t.match(await limits(redis.url), [{ message: /NOAUTH.*set user and password/ }]);
  t.same(await limits(redis.url.replace("//", "//:right@")), []);
  const full = ["--maxmemory", "64mb", "--maxmemory-policy"];
  const evicting = await startRedis(t, [...full, "volatile-lru"]);
  t.match(await limits(evicting?.url ?? ""), [
    {
      severity: "warning",
      line: 2,
      message: /removes keys .*\(maxmemory-policy volatile-lru\).*set maxmemory-policy noeviction/,
    },
  ]);
  const keeping = await startRedis(t, [...full, "noeviction"]);
  t.same(await limits(keeping?.url ?? ""), []);
});

t.test("a missing database is a warning, and an existing one is none", async (t) => {
  t.match(await doubts("postgres://u:never-shown@127.0.0.1:1/d"), [
    {
      ...{ severity: "warning", file: "gateway.yaml", line: 2, column: 18, frame: /^> 2 \| store: /m },
      message: /^The store postgres:\/\/\S+@127\.0\.0\.1:1\/d cannot be used: .*ECONNREFUSED/,
    },
  ]);
  t.notMatch(JSON.stringify(await doubts("postgres://u:never-shown@127.0.0.1:1/d")), /never-shown/);
  const server = await startPostgres(t);
  if (!server) return;
  const url = await server.database();
  t.same(await doubts(url), []);
  t.same(await server.ask(url, "select 1 from pg_namespace where nspname = 'model_gateway'"), [], "nothing is created");
});

t.test(
  "an empty database is a warning while the default SQLite file has keys, and none once it has keys itself",
  async (t) => {
    const server = await startPostgres(t);
    if (!server) return;
    const url = await server.database();
    const folder = t.testdir({ data: {} });
    const left = () =>
      leftBehindWarnings({
        file: join(folder, "gateway.yaml"),
        text: `listen: 127.0.0.1:0\nstore: { ledger: "${url}" }\n`,
        store: {
          ...{ ledger: "shown", limits: "memory", durability: "process", keep: 0 },
          postgres: { ...placeOf(url), journal: join(folder, "journal") },
        },
      });
    t.same(await left(), [], "no file");
    const file = openStores(join(folder, "data", "gateway.db"), [], () => {});
    t.same(await left(), [], "a file without keys and rows");
    await file.keys.create({ name: "a" });
    await file.close();
    t.match(await left(), [
      {
        severity: "warning",
        line: 2,
        message: /the database is empty, but data\/gateway\.db beside gateway\.yaml has 1 key, which/,
      },
    ]);
    const place = { ledger: "shown", postgres: { ...placeOf(url), journal: join(folder, "journal") } };
    const stores = await connectStores(
      { ...place, limits: "memory", durability: "process", keep: 0 } as never,
      [],
      () => {},
    );
    t.match(await left(), [{ message: /the database is empty/ }], "a schema alone");
    await stores.keys.create({ name: "b" });
    await stores.close();
    t.same(await left(), []);
  },
);
