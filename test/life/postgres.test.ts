import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as after } from "node:timers/promises";
import t, { type Test } from "tap";
import { generateKey } from "../../src/store/key-format.ts";
import { connectStores } from "../../src/store/open.ts";
import { asking } from "../support/key.ts";
import { type PostgresServer, placeOf, startPostgres } from "../support/postgres.ts";
import { cli, type GatewayProcess, startProcess } from "../support/process.ts";
import { mixedProvider, traffic } from "../support/traffic.ts";
import { until } from "../support/until.ts";

/** How often the gateway, or its database, is killed; requests in a second. */
const KILLS = Number(process.env["GATEWAY_TEST_POSTGRES_KILLS"] ?? 2);
const RATE = Number(process.env["GATEWAY_TEST_KILL_RATE"] ?? 100);

const server = await startPostgres(t);

/** Providers and models, and a store in the database. */
async function yamlFor(t: Test, url: string, more = ""): Promise<string> {
  const upstream = await mixedProvider();
  t.teardown(() => upstream.close());
  return `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }
models: { m: { targets: [up:m], price: { input: 1, output: 1 } } }
store: { ledger: "${url}", journal: ./journal }
${more}`;
}

/** Another process at the same database. */
async function storesAt(t: Test, url: string) {
  const stores = await connectStores(
    { ledger: url, postgres: { ...placeOf(url), journal: t.testdir() } },
    [],
    () => {},
  );
  t.teardown(() => stores.close());
  return stores;
}

const list = (gateway: GatewayProcess, key: string) =>
  fetch(`${gateway.url}/v1/models`, { headers: asking({ authorization: `Bearer ${key}`, "x-api-key": key }) });

/** What the ledger holds: outcomes by id, and what is wrong with it. */
async function ledgerOf({ ask }: PostgresServer, url: string) {
  const rows = await ask(url, "select id, outcome from usage join usage_kind on number = kind");
  const outcomes = Object.fromEntries(rows.map(({ id, outcome }) => [String(id), String(outcome)]));
  const [sums] = await ask(url, "select coalesce(sum(requests), 0)::int as requests from usage_day");
  return { rows: rows.length, outcomes, requests: sums?.["requests"] };
}

/** A gateway on a PostgreSQL of its own, and a key that it has seen. */
async function withKnownKey(t: Test) {
  const own = await startPostgres(t);
  if (!own) return undefined;
  const url = await own.database();
  const gateway = await startProcess(t, await yamlFor(t, url));
  const { keys } = await storesAt(t, url);
  const { key } = await keys.create({ name: "known" });
  t.equal((await list(gateway, key)).status, 200);
  return { own, url, gateway, key };
}

if (server) {
  t.test("the database is killed under load: no request of a known key fails, and no row is lost", async (t) => {
    const started = await withKnownKey(t);
    if (!started) return;
    const { own, url, gateway, key } = started;
    const told = (text: RegExp) => gateway.lines().filter(({ msg }) => text.test(String(msg))).length;
    const stop = traffic(gateway.port, RATE, key);
    for (let kill = 0; kill < KILLS; kill++) {
      await after(300);
      await own.kill();
      await after(500);
      const unknown = await list(gateway, generateKey().key);
      t.equal(unknown.status, 503, "it is unknown whether this one is wrong");
      t.equal(unknown.headers.get("retry-after"), "5");
      t.match(await unknown.json(), { error: { message: /key store cannot answer/ } });
      const messages = await fetch(`${gateway.url}/v1/messages`, {
        method: "POST",
        headers: { "x-api-key": generateKey().key },
      });
      t.equal(messages.status, 503);
      t.match(
        await messages.json(),
        { type: "error", error: { type: "overloaded_error" } },
        "in the caller's own dialect",
      );
      const none = await list(gateway, "gw_wrong");
      t.equal(none.status, 401, `an invalid key is still refused: ${await none.text()}`);
      await until(async () => (await gateway.ready())?.body["store"] === "waiting", "the word of it");
      t.equal((await gateway.ready())?.status, 200);
      await until(() => told(/ledger cannot be written/) > kill, "the log");
      await own.start();
      await until(() => told(/is being written again/) > kill, "the log");
    }
    await after(300);
    const { whole, others } = await stop();
    t.same(others, [], "no request failed");
    t.ok(whole.length > 50, `${whole.length}`);
    await until(async () => (await ledgerOf(own, url)).rows >= whole.length, "the rows");
    await until(async () => (await gateway.ready())?.body["store"] === "ok", "the word of it");
    t.equal(await gateway.end("SIGINT"), 0);
    const { outcomes, requests, rows } = await ledgerOf(own, url);
    t.same(
      whole.filter((id) => outcomes[id] !== "completed"),
      [],
    );
    t.equal(requests, rows, "sums match the rows");
    t.same(readdirSync(join(gateway.folder, "journal")), []);
    t.comment(`${KILLS} kills of the database: ${whole.length} answers, ${rows} rows, ${others.length} failures`);
  });

  t.test("a gateway without any request tells of a database that goes down, and that comes back", async (t) => {
    const own = await startPostgres(t);
    if (!own) return;
    const gateway = await startProcess(t, await yamlFor(t, await own.database()));
    const told = (text: RegExp) => gateway.lines().filter(({ msg }) => text.test(String(msg))).length;
    await own.kill();
    await until(async () => (await gateway.ready())?.body["store"] === "waiting", "the word of it");
    t.equal(told(/ledger cannot be written: PostgreSQL at/), 1);
    await own.start();
    await until(async () => (await gateway.ready())?.body["store"] === "ok", "the word of its return");
    t.equal(told(/is being written again/), 1);
  });

  t.test("a frozen database makes nobody wait: known keys work, others get 503", async (t) => {
    const started = await withKnownKey(t);
    if (!started) return;
    const { own, url, gateway, key } = started;
    const told = (text: RegExp) => gateway.lines().some(({ msg }) => text.test(String(msg)));
    const stop = traffic(gateway.port, RATE, key);
    await after(300);
    const thaw = own.freeze();
    t.teardown(thaw);
    const waited: number[] = [];
    for (let i = 0; i < 4; i++) {
      const since = performance.now();
      const unknown = await Promise.all([1, 2, 3].map(() => list(gateway, generateKey().key)));
      for (const { status } of unknown) t.equal(status, 503, "while it is frozen");
      waited.push(Math.round(performance.now() - since));
      t.equal((await list(gateway, key)).status, 200);
      await after(400);
    }
    await until(() => told(/ledger cannot be written: PostgreSQL at .* it has not answered/), "the log");
    t.equal((await gateway.ready())?.status, 200);
    thaw();
    await until(() => told(/is being written again/), "the log");
    await until(
      async () => (await list(gateway, generateKey().key)).status === 401,
      "keys that nobody has to be wrong",
    );
    const { whole, others } = await stop();
    t.same(others, [], "no request failed");
    await until(async () => (await ledgerOf(own, url)).rows >= whole.length, "the rows");
    t.equal(await gateway.end("SIGINT"), 0);
    const { outcomes, requests, rows } = await ledgerOf(own, url);
    t.same(
      whole.filter((id) => outcomes[id] !== "completed"),
      [],
    );
    t.equal(requests, rows, "sums match the rows");
    t.comment(`${whole.length} answers; unknown keys waited ${waited.join(", ")} ms`);
  });

  t.test("a gateway that is killed at any moment, its database too, loses and duplicates no row", async (t) => {
    const own = await startPostgres(t);
    if (!own) return;
    const url = await own.database();
    const yaml = await yamlFor(t, url);
    let gateway: GatewayProcess | undefined;
    const answered: string[] = [];
    for (let life = 0; life <= KILLS; life++) {
      gateway = await startProcess(t, yaml, gateway ? { folder: gateway.folder } : {});
      const stop = traffic(gateway.port, RATE);
      await after(300 + Math.random() * 500);
      if (life < KILLS) {
        // Every second time the database goes before it, so that rows stand in the journal only.
        if (life % 2 === 1) {
          await own.kill();
          await after(400);
        }
        await gateway.end("SIGKILL");
        if (life % 2 === 1) await own.start();
      }
      answered.push(...(await stop()).whole);
    }
    if (!gateway) return;
    const { folder, child } = gateway;
    const left = () => readdirSync(join(folder, "journal")).filter((name) => !name.startsWith(`${child.pid}-`));
    await until(() => left().length === 0, "the journals of the killed to be in the ledger");
    t.equal(await gateway.end("SIGINT"), 0);
    t.same(readdirSync(join(folder, "journal")), []);
    const { outcomes, rows, requests } = await ledgerOf(own, url);
    t.equal(rows, Object.keys(outcomes).length, "no row is stored twice");
    t.equal(requests, rows, "nor is it counted twice");
    t.same(
      answered.filter((id) => outcomes[id] !== "completed"),
      [],
    );
    t.same(
      [...new Set(Object.values(outcomes))].filter((name) => !["completed", "interrupted", "aborted"].includes(name)),
      [],
    );
    t.comment(`${KILLS} kills: ${answered.length} whole answers, ${rows} rows`);
  });

  t.test("three gateways that start at the same time share a schema, a first key, keys and usage", async (t) => {
    const url = await server.database();
    const yaml = await yamlFor(t, url, "keys: {}\n");
    const gateways = await Promise.all([1, 2, 3].map(() => startProcess(t, yaml)));
    const first = gateways.flatMap(({ text }) => /gw_\w{61}/.exec(text)?.[0] ?? []);
    t.equal(first.length, 1, "one of them created the first key");
    const key = first[0] as string;
    for (const gateway of gateways) t.equal((await list(gateway, key)).status, 200);
    const body = JSON.stringify({ model: "m", messages: [{ role: "user", content: "1" }] });
    for (const { url: base } of gateways) {
      const headers = asking({ authorization: `Bearer ${key}` });
      const answer = await fetch(`${base}/v1/chat/completions`, { method: "POST", headers, body });
      t.equal(answer.status, 200);
      await answer.text();
    }
    await until(async () => (await ledgerOf(server, url)).rows === 3, "all rows");
    const last = gateways[2] as GatewayProcess;
    t.match(JSON.parse(await cli(last, "usage", "--by", "key", "--json")), [{ requests: 3 }], "from any of them");
    t.equal((await cli(last, "usage", "--rows", "--json")).trim().split("\n").length, 3);
    await cli(last, "keys", "revoke", "first");
    for (const gateway of gateways)
      await until(async () => (await list(gateway, key)).status === 401, "the revocation");
    t.equal(await cli(last, "store", "verify"), "The store has no errors.\n");
  });

  t.test("a failed connection to the database is reported in one line, without its password", async (t) => {
    const url = await server.database();
    const folder = t.testdir();
    const start = async (ledger: string) => {
      const yaml = `providers: { demo: { url: "demo:" } }\nmodels: { echo: { targets: [demo:echo] } }\n`;
      writeFileSync(
        join(folder, "gateway.yaml"),
        `${yaml}warm_up: off\nadmin: off\nlisten: 127.0.0.1:0\nstore: { ledger: "${ledger}" }\n`,
      );
      return cli({ folder }, "run").then(
        () => ({ code: 0, text: "" }),
        ({ code, stdout, stderr }) => ({ code, text: stdout + stderr }),
      );
    };
    const wrong = await start(url.replace(/\/test_\w+\?/, "/none?"));
    t.match(wrong, { code: 1, text: /database "none" does not exist; make it: create database/ });
    const away = await start("postgres://u:never-shown@127.0.0.1:1/d");
    t.match(away, { code: 1, text: /^The store postgres:\/\/u@127\.0\.0\.1:1\/d cannot be used: .*ECONNREFUSED/ });
    t.equal(away.text.trim().split("\n").length, 1);
    t.notMatch(away.text, /never-shown/);
  });
}
