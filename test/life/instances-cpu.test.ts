import t from "tap";
import { chat, freshStores, sharedServers, startInstances, vendor, yaml } from "../support/instances.ts";
import { startBalancer } from "../support/nginx.ts";

/** Requests of a round and requests under way for each gateway: three of them carry three times the load. And rounds. It measures, and fewer than thousands tell nothing. */
const REQUESTS = Number(process.env["GATEWAY_TEST_CPU_REQUESTS"] ?? 0);
const ROUNDS = Number(process.env["GATEWAY_TEST_CPU_ROUNDS"] ?? 2);
const CONCURRENT = 12;

const servers = REQUESTS > 0 ? await sharedServers(t) : undefined;
const skipped = REQUESTS > 0 ? {} : { skip: "it measures: GATEWAY_TEST_CPU_REQUESTS=2000" };
const LIMITS = "limits: { default: { rpm: 1000000, concurrency: 500, budget: $1000000/day } }\n";

t.test(
  "three gateways behind nginx answer what one does, and each request is told what CPU it took",
  skipped,
  async (t) => {
    if (!servers) return;
    const { store } = await freshStores(servers);
    const text = yaml({ p: await vendor(t, "a") }, LIMITS);
    // Both count at Redis and write into PostgreSQL: what differs is how many share the work.
    const one = await startInstances(t, text, store, 1);
    const three = await startInstances(t, text, store, 3);
    const [alone] = one;
    if (!alone) return;
    const nginx = [
      await startBalancer(t, [alone.port, alone.port, alone.port]),
      await startBalancer(
        t,
        three.map(({ port }) => port),
      ),
    ];
    const sets = [one, three].map((gateways, i) => ({ gateways, port: nginx[i]?.port, used: [] as number[] }));
    const round = async ({ gateways, port }: (typeof sets)[number]) => {
      const cpu = () => gateways.reduce((sum, gateway) => sum + gateway.cpu(), 0);
      const before = cpu();
      let left = REQUESTS * gateways.length;
      const loop = async () => {
        while (left-- > 0) {
          const response = await chat(`http://127.0.0.1:${port}`, { stream: left % 2 === 0 });
          if (response.status !== 200) t.fail(`status ${response.status}`);
          await response.text();
        }
      };
      await Promise.all(Array.from({ length: CONCURRENT * gateways.length }, loop));
      return cpu() - before;
    };
    if (sets.some(({ port }) => port === undefined)) return;
    // Each process compiles for itself what it runs.
    for (const set of sets) await round(set);
    for (let i = 0; i < ROUNDS; i++)
      for (const set of i % 2 === 0 ? sets : sets.toReversed()) set.used.push(await round(set));
    const each = sets.map(
      ({ used, gateways }) =>
        (used.reduce((sum, seconds) => sum + seconds, 0) / ROUNDS / REQUESTS / gateways.length) * 1e6,
    );
    t.ok(
      each.every((used) => used > 0),
      "both did something",
    );
    const [single = 0, shared = 0] = each;
    t.comment(
      `${ROUNDS} rounds of ${REQUESTS} requests for each gateway: ${single.toFixed(0)} µs of CPU a request at one gateway, ${shared.toFixed(0)} at three, ${(shared / single).toFixed(3)} times as much`,
    );
  },
);
