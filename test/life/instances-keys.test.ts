import { join } from "node:path";
import { setTimeout as after } from "node:timers/promises";
import t, { type Test } from "tap";
import { connectStores, type Stores } from "../../src/store/open.ts";
import { chat, startInstances, testsOnStores, vendor, yaml } from "../support/instances.ts";
import { mutedPostgres } from "../support/muted-postgres.ts";
import { placeOf } from "../support/postgres.ts";
import { type GatewayProcess } from "../support/process.ts";
import { traffic } from "../support/traffic.ts";
import { until } from "../support/until.ts";

/** Revocations that are measured, and one in so many with nobody hearing; requests in a second at each gateway meanwhile. */
const REVOCATIONS = Number(process.env["GATEWAY_TEST_REVOCATIONS"] ?? 3);
const MUTED = 4;
const RATE = 30;
/** Milliseconds between two looks whether a key still works. */
const BETWEEN = 5;

/** The store, as another process has it. */
async function storesOf(t: Test, database: string): Promise<Stores> {
  const postgres = { ...placeOf(database), journal: join(t.testdir(), "journal") };
  const stores = await connectStores({ ledger: "postgres", postgres }, [], () => {});
  t.teardown(() => stores.close());
  return stores;
}

const test = await testsOnStores(t);

/** What revocations took until each of three gateways refused, and until each stream had ended. */
interface Took {
  refused: number[];
  ended: number[];
}

/** Starts a stream. On a busy machine the look-up of a new key may take so long that it is refused for the time being. */
async function stream({ url }: GatewayProcess, key: string): Promise<Response> {
  for (;;) {
    const answer = await chat(url, { stream: true, user: "hang" }, key);
    if (answer.status !== 503) return answer;
    await answer.text();
    await after(BETWEEN);
  }
}

/** Makes a key, lets it stream at all gateways, and revokes it. */
async function revokeOne(t: Test, { keys }: Stores, gateways: readonly GatewayProcess[], name: string, took: Took) {
  const { key, record } = await keys.create({ name });
  const streams = await Promise.all(gateways.map((gateway) => stream(gateway, key)));
  t.same(
    streams.map(({ status }) => status),
    [200, 200, 200],
  );
  let began = 0;
  // Read from the start: fetch throws away what it has when the connection is cut.
  const ended = streams.map(async ({ body }) => {
    let text = "";
    try {
      for await (const bytes of body ?? []) text += Buffer.from(bytes).toString();
    } catch {
      // Cut, as it has to be where it is not whole.
    }
    took.ended.push(performance.now() - began);
    return text;
  });
  began = performance.now();
  await keys.revoke(record.id);
  const refused = gateways.map(async ({ url }) => {
    while ((await chat(url, {}, key)).status === 200) await after(BETWEEN);
    took.refused.push(performance.now() - began);
  });
  await Promise.all(refused);
  for (const text of await Promise.all(ended)) t.match(text, /was revoked/);
  for (const { url } of gateways) t.equal((await chat(url, {}, key)).status, 401, "and stays revoked");
}

/** Revokes keys under load and tells how long it took. */
async function revocations(t: Test, stores: Stores, gateways: readonly GatewayProcess[], count: number) {
  const stops = gateways.map(({ port }) => traffic(port, RATE));
  const took: Took = { refused: [], ended: [] };
  for (let i = 0; i < count; i++) await revokeOne(t, stores, gateways, `k${i}`, took);
  const served = (await Promise.all(stops.map((stop) => stop()))).reduce((all, { whole }) => all + whole.length, 0);
  for (const [what, times] of Object.entries({ ...took })) {
    const sorted = times.sort((a, b) => a - b);
    const at = (part: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))]?.toFixed(0);
    t.comment(
      `${what}, of ${count} at three gateways beside ${served} requests: median ${at(0.5)} ms, p99 ${at(0.99)} ms, most ${at(1)} ms`,
    );
  }
}

test("a revoked key is refused by all three, and its running exchanges end", async (t, stores) => {
  const gateways = await startInstances(t, yaml({ p: await vendor(t, "a") }), stores.store);
  await revocations(t, await storesOf(t, stores.database), gateways, REVOCATIONS);
});

test("the same holds without notifications, where each instance has to poll", async (t, stores) => {
  const muted = await mutedPostgres(t, stores.database);
  const store = `{ ledger: "${muted.url}", limits: "${stores.redis.url}" }`;
  const gateways = await startInstances(t, yaml({ p: await vendor(t, "a") }), store);
  for (const { url } of gateways) t.equal((await chat(url, {})).status, 200);
  await until(() => muted.listening() === gateways.length, "all of them to listen");
  muted.mute();
  await until(() => muted.cut() > gateways.length, "them to try again in vain");
  await revocations(t, await storesOf(t, stores.database), gateways, Math.ceil(REVOCATIONS / MUTED));
});
