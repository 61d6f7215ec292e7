import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import t, { type Test } from "tap";
import { generateKey } from "../../src/store/key-format.ts";
import { chat, type SharedStores, testsOnStores, vendor, yaml } from "../support/instances.ts";
import { asking } from "../support/key.ts";
import { startProcess } from "../support/process.ts";
import { until } from "../support/until.ts";

// What docs/several-gateways.md says of PostgreSQL and Redis being unavailable, each by itself and both.

const TOKEN = "token-of-an-admin-0123456789";
const keyOf = (name: string) => `key-of-${name}-0123456789abcdef`;
const LIMITS = {
  ...{ plain: "", rates: "rpm: 1000, tpm: 10M, concurrency: 100" },
  ...{ hard: "budget: $5/day", soft: "budget: { amount: $5/day, soft: true }" },
  ...{ late: "budget: $5/week", softlate: "budget: { amount: $5/week, soft: true }" },
};
const KEYS = Object.entries(LIMITS).map(([name, limits]) => `  ${name}: { key: ${keyOf(name)}, ${limits} }\n`);

const test = await testsOnStores(t);

/** A gateway with keys of all kinds, those named here seen before, and who asks it. */
async function started(t: Test, { store }: SharedStores) {
  const more = `admin: { listen: "127.0.0.1:0", token: ${TOKEN} }\ninstances: 2\nkeys:\n${KEYS.join("")}`;
  const gateway = await startProcess(t, `store: ${store}\n${yaml({ p: await vendor(t, "a") }, more)}`);
  const admin = async (method: string, path: string, body?: object, cookie?: string) => {
    const who = cookie === undefined ? { authorization: `Bearer ${TOKEN}` } : { cookie };
    const headers = { "content-type": "application/json", ...who };
    const answer = await fetch(gateway.admin + path, { method, headers, ...(body && { body: JSON.stringify(body) }) });
    return { status: answer.status, text: await answer.text() };
  };
  const made = async (name: string) => JSON.parse((await admin("POST", "/api/keys", { name })).text).secret as string;
  const [seen, unseen] = [await made("seen"), await made("unseen")];
  const keys: Record<string, string> = { seen, unseen, unknown: generateKey().key, malformed: "gw_wrong" };
  // All at once, as each waits for a store's timeout.
  const ask = async (...names: readonly string[]) => {
    const statuses = names.map(async (name) => {
      const answer = await chat(gateway.url, {}, keys[name] ?? keyOf(name));
      await answer.text();
      if (answer.status === 503) t.equal(answer.headers.get("retry-after"), "5", `${name} gets the time to retry`);
      return [name, answer.status];
    });
    return Object.fromEntries(await Promise.all(statuses)) as Record<string, number>;
  };
  const get = async (path: string) => {
    const answer = await fetch(gateway.url + path, { headers: asking({ authorization: `Bearer ${seen}` }) });
    await answer.text();
    return answer.status;
  };
  const all200 = { plain: 200, rates: 200, hard: 200, soft: 200, seen: 200 };
  t.same(await ask(...Object.keys(all200)), all200, "all are answered");
  const session = await fetch(`${gateway.admin}/api/session`, {
    ...{ method: "POST", headers: { "content-type": "application/json" } },
    body: JSON.stringify({ token: TOKEN }),
  });
  const cookie = session.headers.get("set-cookie")?.split(";")[0] ?? "";
  t.equal((await admin("GET", "/api/live", undefined, cookie)).status, 200, "a user is signed in");
  const ready = async () => (await gateway.ready())?.body ?? {};
  return { gateway, admin, ask, get, all200, ready, cookie };
}

const told = (lines: readonly Record<string, unknown>[]) => lines.map((line) => JSON.stringify(line)).join("\n");

test("Redis down: no request is refused because of it", async (t, stores) => {
  const { gateway, admin, ask, get, all200, ready } = await started(t, stores);
  await stores.redis.kill();
  t.teardown(() => stores.redis.start());
  const found = await ask(...Object.keys(all200), "late", "softlate", "unseen", "unknown", "malformed");
  t.same(found, { ...all200, late: 200, softlate: 200, unseen: 200, unknown: 401, malformed: 401 });
  t.equal(await get("/v1/key"), 200);
  for (const path of ["/api/budgets", "/api/keys", "/api/requests", "/api/now", "/metrics", "/"])
    t.equal((await admin("GET", path)).status, 200, path);
  t.match(await ready(), { ready: true, limits: "apart", why: [/^Redis \(store: limits\) is unavailable/] });
  t.match(told(gateway.lines()), /limits: Redis at 127\.0\.0\.1:\d+ \(store: limits\) is unavailable \(/);
});

test("PostgreSQL down: unknown keys and first budget checks are a 503, and the admin side names the store", async (t, stores) => {
  const { gateway, admin, ask, get, all200, ready, cookie } = await started(t, stores);
  await stores.postgres.kill();
  t.teardown(() => stores.postgres.start());
  t.same(await ask(...Object.keys(all200), "malformed"), { ...all200, malformed: 401 }, "known keys continue");
  t.same(
    await ask("late", "softlate", "unseen", "unknown"),
    { late: 503, softlate: 200, unseen: 503, unknown: 503 },
    "what needs a query is refused; soft budgets refuse nothing",
  );
  t.same([await get("/v1/models"), await get("/v1/responses/resp_1")], [200, 503]);
  const named = /PostgreSQL at postgres:\S+ \(store: ledger\): /;
  const inStore = ["budgets", "keys", "keys/seen", "used", "groups", "requests", "spend", "speed", "errors", "audit"];
  const answers = await Promise.all(inStore.map((path) => admin("GET", `/api/${path}`)));
  for (const [i, answer] of answers.entries()) t.match(answer, { status: 503, text: named }, `${inStore[i]}`);
  const inMemory = ["now", "live", "providers", "models", "config"].map((path) => `/api/${path}`);
  for (const path of [...inMemory, "/metrics", "/livez", "/"]) t.equal((await admin("GET", path)).status, 200, path);
  t.match(
    await admin("GET", "/api/live", undefined, cookie),
    { status: 503, text: named },
    "the state of a signed-in user is unknown",
  );
  t.match(await admin("POST", "/api/keys", { name: "more" }), { status: 503, text: named });
  const file = join(gateway.folder, "gateway.yaml");
  const changed = readFileSync(file, "utf8")
    .replace(`key: ${keyOf("plain")},`, "$& expires: 2020-01-01,")
    .replace("input: 0,", "input: 9.87,");
  writeFileSync(file, changed);
  t.match(await admin("POST", "/api/reload"), { status: 200, text: /"generation":2/ });
  t.same(await ask("plain", "rates"), { plain: 401, rates: 200 }, "a key of the file can be ended");
  const off = await admin("POST", "/api/providers/p/off", {});
  t.match(off, { status: 503, text: /providers\.off of p was done, but is not in the audit trail: PostgreSQL/ });
  t.match((await admin("GET", "/api/providers")).text, /"switched_off":true/);
  await admin("POST", "/api/providers/p/on", {});
  await until(async () => (await ready())["store"] === "waiting", "the word of it");
  t.match(await ready(), { ready: true, limits: "ok", why: [/PostgreSQL \(store: ledger\)/] });
  await until(() => /cannot be written: PostgreSQL at/.test(told(gateway.lines())), "the log");
  const causes = told(gateway.lines().filter(({ msg }) => msg === "exchange"));
  t.match(causes, /the ledger \(store: ledger\) has not answered in \d+ s/);
  t.match(causes, /key store cannot answer[^\n]*PostgreSQL at/);
});

test("both down: callers with a hard budget get a 503, known keys without one continue", async (t, stores) => {
  const { ask, ready } = await started(t, stores);
  await Promise.all([stores.postgres.kill(), stores.redis.kill()]);
  t.teardown(() => Promise.all([stores.postgres.start(), stores.redis.start()]));
  t.same(await ask("plain", "rates", "seen"), { plain: 200, rates: 200, seen: 200 });
  t.same(await ask("hard", "soft", "unknown"), { hard: 503, soft: 200, unknown: 503 });
  await until(async () => (await ready())["store"] === "waiting", "the word of it");
  t.match(await ready(), { ready: true, store: "waiting", limits: "apart" });
});

test("PostgreSQL down: a worker that exits is replaced, and knows the keys that the others know", async (t, {
  store,
  postgres,
}) => {
  const more = `workers: 2\nadmin: { listen: "127.0.0.1:0", token: ${TOKEN} }\nkeys: { plain: { key: ${keyOf("plain")} } }\n`;
  const gateway = await startProcess(t, `store: ${store}\n${yaml({ p: await vendor(t, "a") }, more)}`);
  const made = async (name: string) => {
    const answer = await fetch(`${gateway.admin}/api/keys`, {
      ...{ method: "POST", body: JSON.stringify({ name }) },
      headers: { "content-type": "application/json", authorization: `Bearer ${TOKEN}` },
    });
    return ((await answer.json()) as { secret: string }).secret;
  };
  const [seen, unseen] = [await made("seen"), await made("unseen")];
  // Each has a connection of its own, so that both workers serve some.
  const ask = async (key: string) => {
    const all = await Promise.all(Array.from({ length: 6 }, () => chat(gateway.url, {}, key)));
    await Promise.all(all.map((answer) => answer.text()));
    return [...new Set(all.map(({ status }) => status))].sort();
  };
  const serve = async (before: readonly number[]) => {
    const isReady = async () => (await gateway.ready())?.body["workers"] === "2 of 2";
    // In this order: until the primary has noticed the end of a worker, it counts that one as ready.
    await until(
      async () => !gateway.workers().some((pid) => before.includes(pid)) && (await isReady()),
      "the successors",
    );
  };
  t.same([await ask(seen), await ask(keyOf("plain"))], [[200], [200]]);
  await postgres.kill();
  t.teardown(() => postgres.start());
  for (const pid of gateway.workers()) {
    process.kill(pid, "SIGKILL");
    await serve([pid]);
    t.same([await ask(seen), await ask(keyOf("plain")), await ask(unseen)], [[200], [200], [503]]);
  }
  t.match(told(gateway.lines()), /is unavailable: this worker starts with what the other workers know of it/);
  const before = gateway.workers();
  gateway.child.kill("SIGUSR2");
  await serve(before);
  t.same([await ask(seen), await ask(unseen)], [[200], [503]]);
  await postgres.start();
  await until(async () => (await ask(unseen)).join() === "200", "the keys of the store");
  const stop = await fetch(`${gateway.admin}/api/keys/seen`, {
    ...{ method: "DELETE", headers: { authorization: `Bearer ${TOKEN}` } },
  });
  t.equal(stop.status, 204);
  await until(async () => (await ask(seen)).join() === "401", "the end of a key that was handed over");
  t.equal(await gateway.end(), 0);
});
