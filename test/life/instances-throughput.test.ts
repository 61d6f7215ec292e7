import { Agent, request } from "node:http";
import t from "tap";
import { cpuShare } from "../support/cpu-quota.ts";
import { freshStores, sharedServers, startInstances, vendor, yaml } from "../support/instances.ts";
import { asking } from "../support/key.ts";
import { startBalancer } from "../support/nginx.ts";
import type { GatewayProcess } from "../support/process.ts";

/** Seconds of a round. It measures, and less than some seconds tells nothing. And rounds. */
const SECONDS = Number(process.env["GATEWAY_TEST_THROUGHPUT_SECONDS"] ?? 0);
const ROUNDS = Number(process.env["GATEWAY_TEST_THROUGHPUT_ROUNDS"] ?? 3);
/** Of a core, for each gateway: three of them leave enough to nginx, the servers and who asks. */
const SHARE = 0.15;
/** Requests under way for each gateway: more than it can answer at once. */
const CONCURRENT = 24;

const servers = SECONDS > 0 ? await sharedServers(t) : undefined;
const skipped = SECONDS > 0 ? {} : { skip: "it measures: GATEWAY_TEST_THROUGHPUT_SECONDS=5" };
const MORE =
  "limits: { default: { rpm: 1000000, concurrency: 500, budget: $1000000/day } }\noverload: { delay: off }\n";

/** Cheaper than fetch: who asks shares the machine with who is measured. @returns the status, once all has come */
function ask(agent: Agent, port: number, stream: boolean): Promise<number | undefined> {
  const body = JSON.stringify({ model: "m", max_tokens: 10, stream, messages: [{ role: "user", content: "hi" }] });
  const { promise, resolve, reject } = Promise.withResolvers<number | undefined>();
  request(
    { agent, port, host: "127.0.0.1", path: "/v1/chat/completions", method: "POST", headers: asking() },
    (answer) => answer.resume().on("end", () => resolve(answer.statusCode)),
  )
    .on("error", reject)
    .end(body);
  return promise;
}

t.test(
  "three gateways behind nginx, each with a core, have nearly three times the throughput of one",
  skipped,
  async (t) => {
    if (!servers) return;
    const shares = Array.from({ length: 4 }, () => cpuShare(t, SHARE));
    const { store } = await freshStores(servers);
    const text = yaml({ p: await vendor(t, "a") }, MORE);
    // Both count at Redis and write into PostgreSQL: what differs is how many share the work.
    const sets: { count: number; gateways: GatewayProcess[]; port: number; answered: number[] }[] = [];
    for (const count of [1, 3]) {
      const gateways = await startInstances(t, text, store, count);
      const ports = gateways.map(({ port }) => port);
      const nginx = await startBalancer(t, count === 1 ? Array<number>(3).fill(ports[0] as number) : ports);
      if (!nginx) return;
      sets.push({ count, gateways, port: nginx.port, answered: [] as number[] });
    }
    const round = async ({ port, count }: (typeof sets)[number], seconds: number) => {
      const end = performance.now() + seconds * 1000;
      const agent = new Agent({ keepAlive: true });
      let answered = 0;
      const loop = async () => {
        while (performance.now() < end) {
          const status = await ask(agent, port, answered++ % 2 === 0);
          if (status !== 200) t.fail(`status ${status}`);
        }
      };
      await Promise.all(Array.from({ length: CONCURRENT * count }, loop));
      agent.destroy();
      return answered / seconds;
    };
    // Each process compiles for itself what it runs, before it gets its share only.
    for (const set of sets) await round(set, SECONDS);
    for (const { child } of sets.flatMap(({ gateways }) => gateways)) {
      const limit = shares.pop();
      if (!limit) return void t.comment("skipped: no CPU limits for processes on this system");
      limit(child.pid as number);
    }
    for (let i = 0; i < ROUNDS; i++)
      for (const set of i % 2 === 0 ? sets : sets.toReversed()) set.answered.push(await round(set, SECONDS));
    const [one = 0, three = 0] = sets.map(({ answered }) => answered.reduce((sum, each) => sum + each, 0) / ROUNDS);
    t.ok(one > 0 && three > 2.8 * one, "nearly three times as many");
    t.comment(
      `${ROUNDS} rounds of ${SECONDS} s, each gateway with ${SHARE} of a core: ${one.toFixed(0)} requests a second at one, ${three.toFixed(0)} at three, ${(three / one).toFixed(2)} times as many`,
    );
  },
);
