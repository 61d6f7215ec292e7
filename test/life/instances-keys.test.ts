import { join } from "node:path";
import t, { type Test } from "tap";
import { connectStores, type Stores } from "../../src/store/open.ts";
import {
  chat,
  freshStores,
  type SharedStores,
  sharedServers,
  startInstances,
  vendor,
  yaml,
} from "../support/instances.ts";
import { placeOf } from "../support/postgres.ts";

/** Revocations that are measured. */
const REVOCATIONS = Number(process.env["GATEWAY_TEST_REVOCATIONS"] ?? 3);

/** The store, as another process has it. */
async function storesOf(t: Test, database: string): Promise<Stores> {
  const postgres = { ...placeOf(database), journal: join(t.testdir(), "journal") };
  const stores = await connectStores({ ledger: "postgres", postgres }, [], () => {});
  t.teardown(() => stores.close());
  return stores;
}

const servers = await sharedServers(t);
const test = (name: string, body: (t: Test, stores: SharedStores) => Promise<void>) =>
  t.test(name, async (t) => {
    if (servers) await body(t, await freshStores(servers));
  });

test("a key that is revoked is refused by all three, and what runs for it ends", async (t, stores) => {
  const gateways = await startInstances(t, yaml({ p: await vendor(t, "a") }), stores.store);
  const { keys } = await storesOf(t, stores.database);
  const took = { refused: [] as number[], ended: [] as number[] };
  for (let i = 0; i < REVOCATIONS; i++) {
    const { key, record } = await keys.create({ name: `k${i}` });
    const streams = await Promise.all(gateways.map(({ url }) => chat(url, { stream: true, user: "hang" }, key)));
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
      while ((await chat(url, {}, key)).status === 200);
      took.refused.push(performance.now() - began);
    });
    await Promise.all(refused);
    for (const text of await Promise.all(ended)) t.match(text, /was revoked/);
    for (const { url } of gateways) t.equal((await chat(url, {}, key)).status, 401, "and stays so");
  }
  for (const [what, times] of Object.entries(took)) {
    const sorted = times.sort((a, b) => a - b);
    const at = (part: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))]?.toFixed(0);
    t.comment(
      `${what}, of ${REVOCATIONS} at three gateways: median ${at(0.5)} ms, p99 ${at(0.99)} ms, most ${at(1)} ms`,
    );
  }
});
