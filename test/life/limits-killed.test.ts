import { setTimeout as sleep } from "node:timers/promises";
import t, { type Test } from "tap";
import { asking } from "../support/key.ts";
import { type GatewayProcess, startProcess } from "../support/process.ts";
import { startRedis } from "../support/redis.ts";
import { until } from "../support/until.ts";
import { httpUpstream } from "../support/upstream.ts";

const STREAMS = 4;
/** Frames of each stream by the time of the kill: the journal has what came within the first five seconds at least. */
const FRAMES = 80;
const FRAME_INTERVAL = 100;

/** A provider whose streams never end. */
async function streaming(t: Test) {
  const frames: number[] = [];
  const upstream = await httpUpstream(async (_, reply) => {
    const at = frames.push(0) - 1;
    reply.writeHead(200, { "content-type": "text/event-stream" });
    for (; !reply.destroyed; await sleep(FRAME_INTERVAL)) {
      const choices = [{ index: 0, delta: { content: " word" } }];
      reply.write(
        `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", created: 1, model: "x", choices })}\n\n`,
      );
      (frames[at] as number)++;
    }
  });
  t.teardown(() => upstream.close());
  return { origin: upstream.origin.origin, frames };
}

const keyOf = async ({ url }: GatewayProcess) => {
  const answer = await fetch(`${url}/v1/key`, { headers: asking({ connection: "close" }) });
  const { data } = (await answer.json()) as {
    data: {
      usage: number;
      limits: { concurrency: { remaining: number }; budgets: { spent: number; reserved: number }[] }[];
    };
  };
  const { concurrency, budgets } = data.limits[0] as (typeof data.limits)[number];
  return { used: data.usage, running: 900 - concurrency.remaining, ...budgets[0] };
};

async function killUnderStreams(t: Test, limits: string): Promise<void> {
  const { origin, frames } = await streaming(t);
  const gateway = await startProcess(
    t,
    `${limits}
workers: 2
linger: off
providers: { p: { url: "${origin}/v1", speaks: [openai-chat] } }
models: { m: { targets: [p:x], price: { input: 0, output: 1000 }, output: 200 } }
limits: { default: { budget: $1/day, concurrency: 900 } }
`,
  );
  const streams = Array.from({ length: STREAMS }, () =>
    fetch(`${gateway.url}/v1/chat/completions`, {
      method: "POST",
      headers: asking({ connection: "close" }),
      body: '{"model":"m","stream":true,"max_tokens":200,"messages":[]}',
    })
      .then((answer) => answer.text())
      .catch(() => {}),
  );
  const streamed = () => frames.length === STREAMS && frames.every((count) => count >= FRAMES);
  await until(streamed, "the streams");
  for (const pid of gateway.workers()) process.kill(pid, "SIGKILL");
  await Promise.all(streams);
  let told: Partial<Awaited<ReturnType<typeof keyOf>>> = {};
  await until(async () => {
    told = await keyOf(gateway).catch(() => told);
    // The ledger's sum may be a few seconds old.
    return told.reserved === 0 && told.used === told.spent;
  }, "the counter to be what the ledger has");
  const { used = 0, running } = told;
  // The input is free. How much of the output had been noted depends on how busy the machine is.
  const answer = await fetch(`${gateway.admin}/api/requests?outcome=interrupted`);
  const { requests } = (await answer.json()) as { requests: { cost: number }[] };
  t.equal(requests.length, STREAMS);
  for (const { cost } of requests) t.ok(cost > 0, `the text that had arrived was charged: ${cost}`);
  const sum = requests.reduce((all, { cost }) => all + cost, 0);
  t.equal(Math.round(used * 1e9), sum, "each stream's text, once");
  t.equal(running, 0);
  t.equal(await gateway.end(), 0);
}

t.test("the budget counts what the ledger has of killed workers' streams, in memory", (t) => killUnderStreams(t, ""));

t.test("the budget counts what the ledger has of killed workers' streams, at Redis", async (t) => {
  const redis = await startRedis(t);
  if (redis) await killUnderStreams(t, `store: { ledger: "sqlite:./gateway.db", limits: "${redis.url}" }`);
});
