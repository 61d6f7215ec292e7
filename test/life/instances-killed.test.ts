import { Agent, type IncomingMessage, request } from "node:http";
import { setTimeout as after } from "node:timers/promises";
import t from "tap";
import { startInstances, testsOnStores, vendor, yaml } from "../support/instances.ts";
import { asking } from "../support/key.ts";
import { startBalancer } from "../support/nginx.ts";
import { type GatewayProcess, startProcess } from "../support/process.ts";
import { until } from "../support/until.ts";

/** Kills of one of three, and requests in a second meanwhile. */
const KILLS = Number(process.env["GATEWAY_TEST_KILLS"] ?? 1);
const RATE = Number(process.env["GATEWAY_TEST_KILL_RATE"] ?? 60);

const test = await testsOnStores(t);

test("one of three is killed under load behind nginx: no row is lost, and the others continue", async (t, stores) => {
  const text = yaml({ p: await vendor(t, "a") }, "limits: { default: { rpm: 100000, concurrency: 500 } }\n");
  const gateways = await startInstances(t, text, stores.store);
  const nginx = await startBalancer(
    t,
    gateways.map(({ port }) => port),
  );
  if (!nginx) return;
  const whole: string[] = [];
  const failed: number[] = [];
  let asked = 0;
  let going = true;
  const agent = new Agent({ keepAlive: true, maxSockets: 64 });
  const ask = (nth: number) =>
    new Promise<void>((resolve) => {
      const sent = request(
        { port: nginx.port, host: "127.0.0.1", path: "/v1/chat/completions", method: "POST", headers: asking(), agent },
        (incoming: IncomingMessage) => {
          let read = "";
          incoming.setEncoding("utf8").on("data", (more: string) => (read += more));
          incoming.on("close", () => {
            if (incoming.complete && incoming.statusCode === 200 && read.includes('"usage"'))
              whole.push(String(incoming.headers["x-request-id"]));
            else failed.push(incoming.statusCode ?? 0);
            resolve();
          });
          incoming.on("error", () => {});
        },
      );
      sent.on("error", () => resolve(void failed.push(0)));
      const body = { model: "m", max_tokens: 10, stream: nth % 2 === 0, stream_options: { include_usage: true } };
      sent.end(JSON.stringify({ ...body, messages: [{ role: "user", content: String(nth) }] }));
    });
  const running: Promise<void>[] = [];
  const load = (async () => {
    while (going) {
      running.push(ask(asked++));
      await after(1000 / RATE);
    }
  })();
  for (let i = 0; i < KILLS; i++) {
    await after(1500);
    const at = i % 3;
    const dying = gateways[at] as GatewayProcess;
    await dying.end("SIGKILL");
    await after(300);
    const cut = failed.length;
    await after(3000);
    t.comment(`${cut} of ${asked} failed with it; ${failed.length - cut} failed in the 3 s without it`);
    const own = `listen: 127.0.0.1:${dying.port}\nstore: ${stores.store}\ninstances: 3\n`;
    gateways[at] = await startProcess(t, own + text, { folder: dying.folder });
  }
  await after(1000);
  going = false;
  await load;
  await Promise.all(running);
  agent.destroy();
  const rows = async () =>
    (await stores.postgres.ask(stores.database, "select id, count(*)::int as times from usage group by id")) as {
      id: string;
      times: number;
    }[];
  const stored = new Map<string, number>();
  await until(async () => {
    for (const { id, times } of await rows()) stored.set(id, times);
    return whole.every((id) => stored.has(id));
  }, "all rows");
  t.ok(whole.length > asked / 2, `${whole.length} of ${asked} were answered completely`);
  t.equal([...stored.values()].filter((times) => times > 1).length, 0, "none is stored twice");
  const [first] = gateways as [GatewayProcess];
  await until(async () => {
    const key = (await (await fetch(`${first.url}/v1/key`, { headers: asking({ connection: "close" }) })).json()) as {
      data: { limits: { concurrency: { limit: number; remaining: number } }[] };
    };
    return key.data.limits[0]?.concurrency.remaining === 500;
  }, "what the dead had reserved to go");
});
