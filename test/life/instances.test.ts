import { execFile } from "node:child_process";
import { Agent, type IncomingMessage, request } from "node:http";
import { join } from "node:path";
import { setTimeout as after } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import t, { type Test } from "tap";
import { connectStores, type Stores } from "../../src/store/open.ts";
import { asking, KEY } from "../support/gateway.ts";
import { startInstances } from "../support/instances.ts";
import { startBalancer } from "../support/nginx.ts";
import { type PostgresServer, placeOf, startPostgres } from "../support/postgres.ts";
import { eventually, type GatewayProcess, startProcess } from "../support/process.ts";
import { type RedisProcess, startRedis } from "../support/redis.ts";
import { httpUpstream } from "../support/upstream.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
/** Revocations of the measured test, and requests in a second while one of three is killed. */
const REVOCATIONS = Number(process.env["GATEWAY_TEST_REVOCATIONS"] ?? 3);
const RATE = Number(process.env["GATEWAY_TEST_KILL_RATE"] ?? 60);
const KILLS = Number(process.env["GATEWAY_TEST_KILLS"] ?? 1);

/** What three gateways have in common. */
interface Shared {
  postgres: PostgresServer;
  redis: RedisProcess;
  database: string;
  store: string;
}

async function shared(t: Test): Promise<Shared | undefined> {
  const postgres = await startPostgres(t);
  const redis = await startRedis(t);
  if (!postgres || !redis) return undefined;
  const database = await postgres.database();
  return { postgres, redis, database, store: `{ ledger: "${database}", limits: "${redis.url}" }` };
}

/** A provider of Responses that keeps its answers, and of chats; each answer costs a cent. */
async function vendor(t: Test, name: string) {
  let count = 0;
  const upstream = await httpUpstream(async ({ url, body }, reply) => {
    reply.setHeader("content-type", "application/json");
    if (/\/responses\/resp_/.test(url)) return reply.end(JSON.stringify(answer(url.split("/").at(-1) as string)));
    if (url.endsWith("/responses")) return reply.end(JSON.stringify(answer(`resp_${name}${++count}`)));
    const { stream } = JSON.parse(body.toString()) as { stream?: boolean };
    if (!stream) return reply.end(JSON.stringify(CHAT));
    reply.setHeader("content-type", "text/event-stream");
    reply.write(chunk({ choices: [{ index: 0, delta: { content: "H" } }] }));
    if (body.includes("hang")) return undefined;
    await after(20);
    reply.write(chunk({ choices: [{ index: 0, delta: { content: "i" }, finish_reason: "stop" }] }));
    return reply.end(`${chunk({ choices: [], usage: USAGE })}data: [DONE]\n\n`);
  });
  t.teardown(() => upstream.close());
  return upstream;
}

const USAGE = { prompt_tokens: 7, completion_tokens: 10, total_tokens: 17 };
const CHAT = {
  ...{ id: "c", object: "chat.completion", usage: USAGE },
  choices: [{ index: 0, message: { role: "assistant", content: "Hi" }, finish_reason: "stop" }],
};
const chunk = (more: object) => `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", ...more })}\n\n`;
const answer = (id: string) => ({
  ...{ id, object: "response", status: "completed", model: "x", store: true },
  output: [
    {
      type: "message",
      id: `msg_${id}`,
      role: "assistant",
      status: "completed",
      content: [{ type: "output_text", text: "Hi", annotations: [] }],
    },
  ],
  usage: { input_tokens: 7, output_tokens: 10, total_tokens: 17 },
});

const yaml = (providers: Record<string, { origin: URL }>, more = "") => `linger: off
providers:
${Object.entries(providers)
  .map(([name, { origin }]) => `  ${name}: { url: "${origin.origin}/v1", speaks: [openai-chat, openai-responses] }\n`)
  .join(
    "",
  )}models: { m: { targets: [${Object.keys(providers).map((name) => `${name}:x`)}], price: { input: 0, output: 1000 }, output: 100 } }
${more}`;

const post = (url: string, path: string, body: object, key = KEY) =>
  fetch(`${url}/v1/${path}`, {
    method: "POST",
    headers: { ...asking({ connection: "close" }), authorization: `Bearer ${key}` },
    body: JSON.stringify({ model: "m", ...body }),
  });
const chat = (url: string, more: object = {}, key = KEY) =>
  post(url, "chat/completions", { max_tokens: 10, messages: [{ role: "user", content: "hi" }], ...more }, key);

/** The store, as another process has it. */
async function storesOf(t: Test, database: string): Promise<Stores> {
  const postgres = { ...placeOf(database), journal: join(t.testdir(), "journal") };
  const stores = await connectStores(
    { ledger: "postgres", postgres, durability: "process", keep: undefined } as never,
    [],
    () => {},
  );
  t.teardown(() => stores.close());
  return stores;
}

const startAll = (t: Test, { store }: Shared, text: string, count = 3) => startInstances(t, text, store, count);

/** The command line, beside a gateway. */
async function cli({ folder }: GatewayProcess, ...args: string[]): Promise<string> {
  const program = ["--import", join(ROOT, "src/loader/register.js"), join(ROOT, "src/main.ts"), ...args];
  return (await promisify(execFile)(process.execPath, program, { cwd: folder })).stdout;
}

const setup = await shared(t);
const test = (name: string, body: (t: Test, setup: Shared) => Promise<void>) =>
  t.test(name, async (t) => {
    if (setup) await body(t, { ...setup, ...(await fresh(setup)) });
  });

/** A database and counts of its own for each test. */
async function fresh({ postgres, redis }: Shared) {
  await redis.ask("FLUSHALL");
  const database = await postgres.database();
  return { database, store: `{ ledger: "${database}", limits: "${redis.url}" }` };
}

test("a budget is one for three gateways behind nginx, and each tells what all have used", async (t, setup) => {
  const up = await vendor(t, "a");
  const gateways = await startAll(t, setup, yaml({ p: up }, "limits: { default: { budget: $0.20 } }\n"));
  const nginx = await startBalancer(
    t,
    gateways.map(({ port }) => port),
  );
  if (!nginx) return;
  const url = `http://127.0.0.1:${nginx.port}`;
  const statuses = await Promise.all(Array.from({ length: 150 }, async () => (await chat(url)).status));
  t.equal(statuses.filter((status) => status === 200).length, 20);
  t.equal(statuses.filter((status) => status === 429).length, 130);
  t.equal(up.seen.length, 20);
  for (const gateway of gateways) {
    const key = (await (
      await fetch(`${gateway.url}/v1/key`, { headers: asking({ connection: "close" }) })
    ).json()) as object;
    t.match(key, { data: { limits: [{ budgets: [{ spent: 0.2, reserved: 0, remaining: 0 }] }] } });
    t.ok(
      gateway.lines().some(({ msg }) => msg === "exchange"),
      "each has served",
    );
  }
  await eventually(async () => {
    const sums = await Promise.all(gateways.map((gateway) => cli(gateway, "usage", "--by", "model", "--json")));
    return sums.every((text) => /"requests": ?150/.test(text) && text === sums[0]);
  }, "usage, the same from each gateway");
});

test("a key that is revoked is refused by all three, and what runs for it ends", async (t, setup) => {
  const gateways = await startAll(t, setup, yaml({ p: await vendor(t, "a") }));
  const { keys } = await storesOf(t, setup.database);
  const took = { refused: [] as number[], ended: [] as number[] };
  for (let i = 0; i < REVOCATIONS; i++) {
    const { key, record } = await keys.create({ name: `k${i}` });
    const streams = await Promise.all(gateways.map(({ url }) => chat(url, { stream: true, user: "hang" }, key)));
    t.same(
      streams.map(({ status }) => status),
      [200, 200, 200],
    );
    const began = performance.now();
    await keys.revoke(record.id);
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

test("a conversation and its kept answers are one key's at every gateway, and stay at their provider", async (t, setup) => {
  const providers = { p: await vendor(t, "p"), q: await vendor(t, "q") };
  const gateways = await startAll(
    t,
    setup,
    yaml(providers, "keys: { test: { key: test-key-0123456789abcdef }, other: { key: other-key-0123456789abcdef } }\n"),
  );
  const [one, two, three] = gateways as [GatewayProcess, GatewayProcess, GatewayProcess];
  const seen = () => Object.values(providers).map(({ seen }) => seen.length);
  const served = async (asked: () => Promise<Response>) => {
    const before = seen();
    const { status } = await asked();
    return { status, by: seen().findIndex((count, i) => count > (before[i] as number)) };
  };
  for (let i = 0; i < 6; i++) {
    const first = await post(one.url, "responses", { input: `question ${i}` });
    const { id } = (await first.json()) as { id: string };
    const by = ["p", "q"].findIndex((name) => id.startsWith(`resp_${name}`));
    const next = await served(() => post(two.url, "responses", { input: "and then?", previous_response_id: id }));
    t.same(next, { status: 200, by }, "goes on where it began");
    const fetched = await served(() =>
      fetch(`${three.url}/v1/responses/${id}`, { headers: asking({ connection: "close" }) }),
    );
    t.same(fetched, { status: 200, by });
    const others = await served(() =>
      fetch(`${three.url}/v1/responses/${id}`, {
        headers: { ...asking({ connection: "close" }), authorization: "Bearer other-key-0123456789abcdef" },
      }),
    );
    t.same(others, { status: 404, by: -1 }, "another key's is not there, and nobody is asked");
    const turns = await Promise.all(gateways.map(({ url }) => Promise.resolve(url)));
    const chats: number[] = [];
    for (const url of turns)
      chats.push((await served(() => chat(url, { messages: [{ role: "user", content: `talk ${i}` }] }))).by);
    t.equal(new Set(chats).size, 1, "a conversation stays, whoever serves its turns");
  }
});

test("one of three is killed under load behind nginx: no row is lost, and the others serve on", async (t, setup) => {
  const text = yaml({ p: await vendor(t, "a") }, "limits: { default: { rpm: 100000, concurrency: 500 } }\n");
  const gateways = await startAll(t, setup, text);
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
    const cut = failed.length;
    await after(3000);
    t.comment(
      `${cut} of ${asked} were with it when it was killed, or just sent; ${failed.length - cut} failed in the 3 s without it`,
    );
    const own = `listen: 127.0.0.1:${dying.port}\nstore: ${setup.store}\ninstances: 3\n`;
    gateways[at] = await startProcess(t, own + text, { folder: dying.folder });
  }
  await after(1000);
  going = false;
  await load;
  await Promise.all(running);
  agent.destroy();
  const rows = async () =>
    (await setup.postgres.ask(setup.database, "select id, count(*)::int as times from usage group by id")) as {
      id: string;
      times: number;
    }[];
  const stored = new Map<string, number>();
  await eventually(async () => {
    for (const { id, times } of await rows()) stored.set(id, times);
    return whole.every((id) => stored.has(id));
  }, "all rows");
  t.ok(whole.length > asked / 2, `${whole.length} of ${asked} were answered whole`);
  t.equal([...stored.values()].filter((times) => times > 1).length, 0, "none is there twice");
  const [first] = gateways as [GatewayProcess];
  await eventually(async () => {
    const key = (await (await fetch(`${first.url}/v1/key`, { headers: asking({ connection: "close" }) })).json()) as {
      data: { limits: { concurrency: { limit: number; remaining: number } }[] };
    };
    return key.data.limits[0]?.concurrency.remaining === 500;
  }, "what the dead had reserved to go");
});
