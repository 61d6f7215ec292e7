import { execFileSync } from "node:child_process";
import { Agent, type IncomingMessage, request } from "node:http";
import { setTimeout as after } from "node:timers/promises";
import t, { type Test } from "tap";
import { type OpenAnswer, OpenLoop } from "../support/open-loop.ts";
import { type GatewayProcess, startProcess } from "../support/process.ts";
import { httpUpstream } from "../support/upstream.ts";

/** Seconds for which too much is asked; the goals are judged from 20 on, and the gateway then has a core of its own. */
const SECONDS = Number(process.env["GATEWAY_TEST_OVERLOAD_SECONDS"] ?? 2);
const FULL = SECONDS >= 20;
/** How long new requests may wait before some are refused: the default. */
const DELAY = "200ms";
/** How many times what it can do is asked. */
const TIMES = 4;
/** Clients that together ask for as much as it can do. */
const CLIENTS = 4;
/** Streams that run meanwhile. */
const STREAMS = 20;
/** Other keys, and how many times what one of them asks the noisy one asks. */
const QUIET = 20;
const NOISY = 50;

/** A fixed piece of work for each request, about what a translated stream of some hundred events costs. */
const WORK = `
import { pbkdf2Sync } from "node:crypto";
export default class Work {
  request(exchange) {
    if (exchange.requestedModel === "whole") pbkdf2Sync("x", "y", 4000, 32, "sha256");
  }
}`;
const keyOf = (name: string) => `key-of-${name}-0123456789`;
const NAMES = ["noisy", "steady", ...Array.from({ length: QUIET }, (_, i) => `quiet${i}`)];
const CHUNK =
  'data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}]}\n\n';
const END =
  'data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n';

/** One that answers at once, or with a stream that goes on until it is told. */
async function setUp(t: Test) {
  const streams = { over: false };
  const upstream = await httpUpstream((asked, reply) => {
    upstream.seen.length = 0;
    if (!asked.body.includes('"stream":true')) {
      reply.setHeader("content-type", "application/json").end('{"id":"x","object":"chat.completion","choices":[]}');
      return;
    }
    reply.writeHead(200, { "content-type": "text/event-stream" });
    const timer = setInterval(() => {
      reply.write(streams.over ? CHUNK + END : CHUNK);
      if (streams.over) reply.end();
      if (streams.over || reply.destroyed) clearInterval(timer);
    }, 100);
  });
  t.teardown(() => upstream.close());
  if (FULL) execFileSync("taskset", ["-cp", "1", String(process.pid)]);
  const gateway = await startProcess(
    t,
    `log: { level: warn }
linger: off
overload: { delay: ${DELAY} }
providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }
models: { whole: { targets: [up:whole] }, stream: { targets: [up:stream] } }
plugins: { work: { from: ./work.ts } }
chains: { llm: [sse, auth, models, work, rewrite, usage] }
keys: { ${NAMES.map((name) => `${name}: { key: ${keyOf(name)} }`).join(", ")} }
`,
    { files: { "work.ts": WORK }, core: FULL ? 0 : undefined },
  );
  const agent = new Agent({ keepAlive: true });
  t.teardown(() => agent.destroy());
  return { gateway, agent, streams, loop: new OpenLoop(t) };
}

interface Asked {
  status: number;
  text: string;
}

const PATH = "/v1/chat/completions";
const bodyOf = (stream: boolean): string =>
  JSON.stringify({ model: stream ? "stream" : "whole", stream, messages: [{ role: "user", content: "hi" }] });

function ask({ port }: GatewayProcess, agent: Agent, name: string, stream = false): Promise<Asked> {
  const { promise, resolve, reject } = Promise.withResolvers<Asked>();
  const headers = { "x-api-key": keyOf(name), "content-type": "application/json" };
  request({ port, host: "127.0.0.1", path: PATH, method: "POST", headers, agent }, (answer: IncomingMessage) => {
    let text = "";
    answer.setEncoding("utf8").on("data", (more) => (text += more));
    answer.on("error", reject).on("end", () => resolve({ status: answer.statusCode ?? 0, text }));
  })
    .on("error", reject)
    .end(bodyOf(stream));
  return promise;
}

const served = ({ status }: { status: number }) => status === 200;
type Ask = (name: string) => Promise<Asked>;
/** Names are asked for in turn. */
type Flood = (rate: number, seconds: number, names: readonly string[]) => Promise<OpenAnswer[]>;

/** Asks, and counts the rows that there must be. */
function counting(gateway: GatewayProcess, agent: Agent, loop: OpenLoop) {
  const rows: Record<string, { completed: number }> = {};
  const count = (name: string) => {
    rows[name] = { completed: (rows[name]?.completed ?? 0) + 1 };
  };
  const one: Ask = async (name) => {
    const asked = await ask(gateway, agent, name);
    if (served(asked)) count(name);
    return asked;
  };
  const flood: Flood = async (rate, seconds, names) => {
    const keys = names.map((name) => [name, keyOf(name)] as const);
    const { port } = gateway;
    const answers = await loop.ask({ port, path: PATH, body: bodyOf(false), keys, rate, seconds });
    for (const answer of answers) if (served(answer)) count(answer.name);
    return answers;
  };
  return { one, flood, rows };
}

/** What it answers in a second where a few ask as fast as they can, and in a second of its CPU. */
async function peak(gateway: GatewayProcess, one: Ask, seconds: number): Promise<{ rate: number; perCpu: number }> {
  const until = performance.now() + seconds * 1000;
  const cpu = gateway.cpu();
  let count = 0;
  const client = async (): Promise<void> => {
    while (performance.now() < until) if (served(await one("steady"))) count++;
  };
  await Promise.all(Array.from({ length: CLIENTS }, client));
  return { rate: count / seconds, perCpu: count / (gateway.cpu() - cpu) };
}

const percent = (part: number) => `${(part * 100).toFixed(1)} %`;
const p = (times: readonly number[], part: number) =>
  times.toSorted((a, b) => a - b)[Math.min(times.length - 1, Math.floor(times.length * part))] ?? 0;

t.test("at four times its capacity, it refuses the excess and serves what it can", { timeout: 600_000 }, async (t) => {
  const { gateway, agent, streams: running, loop } = await setUp(t);
  const { one, flood, rows } = counting(gateway, agent, loop);
  const streams = Array.from({ length: STREAMS }, () => ask(gateway, agent, "steady", true));
  await after(300);
  await peak(gateway, one, SECONDS / 4);
  const { rate, perCpu } = await peak(gateway, one, SECONDS / 2);
  const cpu = gateway.cpu();
  const began = performance.now();
  const answers = await flood(TIMES * rate, SECONDS, ["steady"]);
  const used = gateway.cpu() - cpu;
  const took = (performance.now() - began) / 1000;
  const back = await flood(0.5 * rate, FULL ? 10 : 1, ["steady"]);
  const refused = answers.filter(({ status }) => status === 503);
  t.equal(answers.filter((asked) => !served(asked)).length, refused.length, "served, or refused as overload");
  t.ok(refused.length > 0);
  for (const { retryAfter, text = "" } of refused.slice(0, 3)) {
    t.match(retryAfter, /^[1-3]$/);
    t.match(JSON.parse(text), { error: { type: "server_error" } });
  }
  for (let i = 0; i < 300 && (await one("steady")).status !== 200; i++) await after(100);
  t.equal((await one("steady")).status, 200, "and then it serves again");
  running.over = true;
  for (const { status, text } of await Promise.all(streams))
    t.ok(status === 200 && text.endsWith("[DONE]\n\n"), "a running exchange is never shed");
  t.equal(await gateway.end(), 0);
  t.same(gateway.outcomes(), { steady: { completed: (rows["steady"]?.completed ?? 0) + STREAMS } }, "one row each");
  t.equal(gateway.ledger().twice, 0);

  const within = answers.filter((asked) => served(asked) && asked.at < SECONDS * 1000);
  const goodput = within.length / SECONDS / rate;
  const efficiency = answers.filter(served).length / used / perCpu;
  const late = refused.map(({ due, at }) => at - due);
  const last = Math.max(0, ...back.filter((asked) => !served(asked)).map(({ at }) => at));
  t.comment(
    `peak ${rate.toFixed(0)}/s; at ${TIMES} ×: goodput ${percent(goodput)}, for each second of CPU ${percent(efficiency)}`,
    `it had ${percent(used / took)} of a core; refused ${refused.length} in p50 ${p(late, 0.5).toFixed(1)}, p99 ${p(late, 0.99).toFixed(1)} ms`,
    `last refusal ${(last / 1000).toFixed(1)} s after it`,
  );
  if (!FULL) return;
  t.ok(efficiency >= 0.9, "a refusal takes little time");
  t.ok(last <= 5000, "recovery");
  // Where others have its core, what it takes by the clock tells of them.
  if (used / took < 0.9) return;
  t.ok(goodput >= 0.9, "goodput");
  t.ok(p(late, 0.5) <= 20, "refusals");
});

t.test(
  "one key with fifty times as many requests as others does not slow them down",
  { timeout: 600_000 },
  async (t) => {
    const { gateway, agent, loop } = await setUp(t);
    const { one, flood, rows } = counting(gateway, agent, loop);
    await peak(gateway, one, SECONDS / 4);
    const { rate } = await peak(gateway, one, SECONDS / 2);
    // All quiet ones together ask for less than half of what it can do.
    const each = (0.4 * rate) / QUIET;
    const round = NOISY + QUIET;
    const names = Array.from({ length: round }, (_, place) => (place < QUIET ? `quiet${place}` : "noisy"));
    const answers = await flood(each * round, SECONDS, names);
    const part = (of: (name: string) => boolean) => {
      const own = answers.filter(({ name }) => of(name));
      return own.filter(served).length / own.length;
    };
    const [quiet, noisy] = [part((name) => name !== "noisy"), part((name) => name === "noisy")];
    t.comment(`served: of the others ${percent(quiet)}, of the noisy one ${percent(noisy)}`);
    t.ok(quiet >= noisy);
    t.equal(await gateway.end(), 0);
    t.same(gateway.outcomes(), rows, "one row for each that was let in");
    if (FULL) t.ok(quiet >= 0.95);
  },
);
