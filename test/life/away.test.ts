import t, { type Test } from "tap";
import { newKey } from "../../src/store/key-format.ts";
import { asking } from "../support/gateway.ts";
import { chat, freshStores, type SharedStores, sharedServers, vendor, yaml } from "../support/instances.ts";
import { eventually, startProcess } from "../support/process.ts";

// What docs/operations.md says of PostgreSQL and Redis being away, each by itself and both.

const TOKEN = "token-of-an-admin-0123456789";
const keyOf = (name: string) => `key-of-${name}-0123456789abcdef`;
const LIMITS = {
  ...{ plain: "", rates: "rpm: 1000, tpm: 10M, concurrency: 100" },
  ...{ hard: "budget: $5/day", soft: "budget: { amount: $5/day, soft: true }" },
  ...{ late: "budget: $5/week", softlate: "budget: { amount: $5/week, soft: true }" },
};
const KEYS = Object.entries(LIMITS).map(([name, limits]) => `  ${name}: { key: ${keyOf(name)}, ${limits} }\n`);

const servers = await sharedServers(t);
const test = (name: string, body: (t: Test, stores: SharedStores) => Promise<void>) =>
  t.test(name, async (t) => {
    if (servers) await body(t, await freshStores(servers));
  });

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
  const keys: Record<string, string> = { seen, unseen, unknown: newKey().key, malformed: "gw_wrong" };
  const ask = async (...names: readonly string[]) => {
    const statuses: Record<string, number> = {};
    for (const name of names) {
      const answer = await chat(gateway.url, {}, keys[name] ?? keyOf(name));
      await answer.text();
      statuses[name] = answer.status;
      if (answer.status === 503) t.equal(answer.headers.get("retry-after"), "5", `${name} is told when to come again`);
    }
    return statuses;
  };
  const get = async (path: string) => {
    const answer = await fetch(gateway.url + path, { headers: asking({ authorization: `Bearer ${seen}` }) });
    await answer.text();
    return answer.status;
  };
  const all200 = { plain: 200, rates: 200, hard: 200, soft: 200, seen: 200 };
  t.same(await ask(...Object.keys(all200)), all200, "all is there");
  const session = await fetch(`${gateway.admin}/api/session`, {
    ...{ method: "POST", headers: { "content-type": "application/json" } },
    body: JSON.stringify({ token: TOKEN }),
  });
  const cookie = session.headers.get("set-cookie")?.split(";")[0] ?? "";
  t.equal((await admin("GET", "/api/live", undefined, cookie)).status, 200, "somebody is signed in");
  const ready = async () => (await gateway.ready())?.body ?? {};
  return { gateway, admin, ask, get, all200, ready, cookie };
}

const told = (lines: readonly Record<string, unknown>[]) => lines.map((line) => JSON.stringify(line)).join("\n");

test("Redis away: nobody is refused for that", async (t, stores) => {
  const { gateway, admin, ask, get, all200, ready } = await started(t, stores);
  await stores.redis.kill();
  t.teardown(() => stores.redis.start());
  const found = await ask(...Object.keys(all200), "late", "softlate", "unseen", "unknown", "malformed");
  t.same(found, { ...all200, late: 200, softlate: 200, unseen: 200, unknown: 401, malformed: 401 });
  t.equal(await get("/v1/key"), 200);
  for (const path of ["/api/budgets", "/api/keys", "/api/requests", "/api/now", "/metrics", "/"])
    t.equal((await admin("GET", path)).status, 200, path);
  t.match(await ready(), { ready: true, limits: "apart", why: [/^Redis \(store: limits\) is away/] });
  t.match(told(gateway.lines()), /limits: Redis at 127\.0\.0\.1:\d+ \(store: limits\) is away \(/);
});

test("PostgreSQL away: unseen keys and first sums are a 503, and the admin side says which store", async (t, stores) => {
  const { gateway, admin, ask, get, all200, ready, cookie } = await started(t, stores);
  await stores.postgres.kill();
  t.teardown(() => stores.postgres.start());
  t.same(await ask(...Object.keys(all200), "malformed"), { ...all200, malformed: 401 }, "what is known goes on");
  t.same(
    await ask("late", "softlate", "unseen", "unknown"),
    { late: 503, softlate: 200, unseen: 503, unknown: 503 },
    "what has to be asked for is refused; soft budgets refuse nothing",
  );
  t.same([await get("/v1/models"), await get("/v1/responses/resp_1")], [200, 503]);
  const named = /PostgreSQL at postgres:\S+ \(store: ledger\): /;
  for (const path of [
    "budgets",
    "keys",
    "keys/seen",
    "used",
    "groups",
    "requests",
    "spend",
    "speed",
    "errors",
    "audit",
  ]) {
    const { status, text } = await admin("GET", `/api/${path}`);
    t.equal(status, 503, path);
    t.match(text, named, path);
  }
  for (const path of [
    "/api/now",
    "/api/live",
    "/api/providers",
    "/api/models",
    "/api/config",
    "/metrics",
    "/livez",
    "/",
  ])
    t.equal((await admin("GET", path)).status, 200, path);
  t.match(
    await admin("GET", "/api/live", undefined, cookie),
    { status: 503, text: named },
    "who is signed in may be out",
  );
  t.match(await admin("POST", "/api/keys", { name: "more" }), { status: 503, text: named });
  t.equal((await admin("POST", "/api/reload")).status, 200);
  const off = await admin("POST", "/api/providers/p/off", {});
  t.match(off, { status: 503, text: /providers\.off of p was done, but is not in the audit trail: PostgreSQL/ });
  t.match((await admin("GET", "/api/providers")).text, /"switched_off":true/);
  await admin("POST", "/api/providers/p/on", {});
  await eventually(async () => (await ready())["store"] === "waiting", "the word of it");
  t.match(await ready(), { ready: true, limits: "ok", why: [/PostgreSQL \(store: ledger\)/] });
  await eventually(() => /cannot be written: PostgreSQL at/.test(told(gateway.lines())), "the log");
  const causes = told(gateway.lines().filter(({ msg }) => msg === "exchange"));
  t.match(causes, /the ledger \(store: ledger\) has not answered in \d+ ms/);
  t.match(causes, /key store cannot answer[^\n]*PostgreSQL at/);
});

test("both away: whoever has a hard budget gets a 503, known keys without one go on", async (t, stores) => {
  const { ask, ready } = await started(t, stores);
  await Promise.all([stores.postgres.kill(), stores.redis.kill()]);
  t.teardown(() => Promise.all([stores.postgres.start(), stores.redis.start()]));
  t.same(await ask("plain", "rates", "seen"), { plain: 200, rates: 200, seen: 200 });
  t.same(await ask("hard", "soft", "unknown"), { hard: 503, soft: 200, unknown: 503 });
  await eventually(async () => (await ready())["store"] === "waiting", "the word of it");
  t.match(await ready(), { ready: true, store: "waiting", limits: "apart" });
});
