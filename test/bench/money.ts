// What keys' limits, the ledger and its journal cost, in one process, interleaved with a chain without them; how long they keep
// the serving thread at most; and how many rows a second the store takes.
// node_modules/.bin/node --import ./src/loader/register.js test/bench/money.ts [requests of a round] [rounds] [rows]
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { Agent, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { newId } from "../../src/core/id.ts";
import { Gateway } from "../../src/gateway.ts";
import { journalFolder } from "../../src/store/journal/files.ts";
import { Journal } from "../../src/store/journal/journal.ts";
import { JournaledLedger } from "../../src/store/journal/journaled-ledger.ts";
import type { LedgerEntry } from "../../src/store/ledger.ts";
import { MemoryLimiter } from "../../src/store/memory-limiter.ts";
import { KEY, MemoryLog } from "../support/gateway.ts";
import { httpUpstream } from "../support/upstream.ts";

const [REQUESTS = 2000, ROUNDS = 15, ROWS = 50_000] = process.argv.slice(2).map(Number);
/** Requests under way. */
const CONCURRENT = 32;
const BODY = JSON.stringify({ model: "m", max_tokens: 10, messages: [{ role: "user", content: "Hello there" }] });
const ANSWER = JSON.stringify({
  id: "c",
  choices: [{ index: 0, message: { role: "assistant", content: "Hi" }, finish_reason: "stop" }],
  usage: { prompt_tokens: 7, completion_tokens: 3, total_tokens: 10 },
});

/** What was done in one go on the serving thread: how often, the longest, and how often longer than a millisecond. */
interface Held {
  count: number;
  longest: number;
  over: number;
}
const held: Record<string, Held> = {};

/** Measures every call of a method. */
function watch(owner: object, name: string, label: string): void {
  const real = Reflect.get(owner, name) as (...given: unknown[]) => unknown;
  const sum: Held = { count: 0, longest: 0, over: 0 };
  held[label] = sum;
  Reflect.set(owner, name, function (this: unknown, ...given: unknown[]) {
    const begun = process.threadCpuUsage();
    const result = real.apply(this, given);
    const { user, system } = process.threadCpuUsage(begun);
    sum.count++;
    sum.longest = Math.max(sum.longest, user + system);
    if (user + system > 1000) sum.over++;
    return result;
  });
}

const median = (numbers: number[]): number => numbers.sort((a, b) => a - b)[numbers.length >> 1] ?? Number.NaN;

function ask(agent: Agent, port: number): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const headers = { authorization: `Bearer ${KEY}`, "content-type": "application/json" };
  request({ agent, port, host: "127.0.0.1", path: "/v1/chat/completions", method: "POST", headers }, (answer) => {
    if (answer.statusCode !== 200) reject(new Error(`status ${answer.statusCode}`));
    answer.resume().on("end", resolve);
  })
    .on("error", reject)
    .end(BODY);
  return promise;
}

/** Microseconds of CPU for a request: of this thread, and of the process with the ledger's thread. */
async function round(agent: Agent, port: number, requests: number) {
  const [thread, all] = [process.threadCpuUsage(), process.cpuUsage()];
  let left = requests;
  const loop = async () => {
    while (left-- > 0) await ask(agent, port);
  };
  await Promise.all(Array.from({ length: CONCURRENT }, loop));
  const own = process.threadCpuUsage(thread);
  const both = process.cpuUsage(all);
  return { thread: (own.user + own.system) / requests, process: (both.user + both.system) / requests };
}

const yaml = (folder: string, provider: string, more: string) => `listen: 127.0.0.1:0
admin: off
store: { ledger: "sqlite:${folder}/gateway.db" }
warm_up: off
overload: { delay: off }
keys: { test: { key: ${KEY}, group: acme/research } }
providers: { up: { url: "${provider}/v1", speaks: [openai-chat] } }
models: { m: { targets: [up:m], price: { input: 1, output: 1 }, output: 1k } }
${more}
`;
const LIMITS = "{ rpm: 100M, tpm: 100G, concurrency: 10k, budget: [$1_000_000/day, $1_000_000/month] }";

async function start(folder: string, provider: string, more: string): Promise<Gateway> {
  mkdirSync(folder);
  writeFileSync(join(folder, "gateway.yaml"), yaml(folder, provider, more));
  return Gateway.start({ file: join(folder, "gateway.yaml"), env: process.env, log: new MemoryLog() });
}

async function overhead(folder: string): Promise<void> {
  const upstream = await httpUpstream((_, reply) => {
    reply.setHeader("content-type", "application/json").end(ANSWER);
  });
  const provider = upstream.origin.origin;
  const limits = `limits: { default: ${LIMITS}, all: ${LIMITS}, groups: { acme: ${LIMITS} }, models: { m: ${LIMITS} } }`;
  const full = await start(join(folder, "full"), provider, limits);
  const bare = await start(join(folder, "bare"), provider, "chains: { llm: [sse, auth, models, rewrite] }");
  const ports = [full, bare].map(({ address }) => address.port) as [number, number];
  const agent = new Agent({ keepAlive: true, maxSockets: CONCURRENT });
  for (let i = 0; i < 3; i++) for (const port of ports) await round(agent, port, REQUESTS);
  const took = { thread: [] as number[], process: [] as number[], bare: [] as number[] };
  for (let i = 0; i < ROUNDS; i++) {
    const found = new Map<number, { thread: number; process: number }>();
    for (const port of i % 2 === 0 ? ports : ports.toReversed()) found.set(port, await round(agent, port, REQUESTS));
    const [one, other] = ports.map((port) => found.get(port));
    if (!one || !other) continue;
    took.thread.push(one.thread - other.thread);
    took.process.push(one.process - other.process);
    took.bare.push(other.thread);
  }
  console.log(
    `limits, ledger and journal: ${median(took.thread).toFixed(1)} µs of CPU a request on the serving thread, ${median(took.process).toFixed(1)} µs with the ledger's; client, gateway without them and provider together take ${median(took.bare).toFixed(0)} µs (medians of ${ROUNDS} pairs of rounds of ${REQUESTS})`,
  );
  // In rounds of their own: to measure each call costs more than the call.
  watch(Journal.prototype, "write", "journal write");
  watch(JournaledLedger.prototype, "begin", "ledger begin");
  watch(JournaledLedger.prototype, "append", "ledger append");
  watch(MemoryLimiter.prototype, "reserve", "limiter reserve");
  watch(MemoryLimiter.prototype, "settle", "limiter settle");
  for (let i = 0; i < ROUNDS; i++) await round(agent, ports[0], REQUESTS);
  for (const [label, { count, longest, over }] of Object.entries(held))
    console.log(
      `${label}: ${count} times, at most ${longest} µs of CPU, ${over} times more than 1 ms, collections of garbage included`,
    );
  agent.destroy();
  for (const gateway of [full, bare]) await gateway.stop({ drain: 0 });
  await upstream.close();
}

async function rows(folder: string): Promise<void> {
  const place = join(folder, "rows.db");
  const ledger = new JournaledLedger(place, journalFolder(place), (message) => console.log(message));
  const entry = (i: number): LedgerEntry => ({
    ...{ id: newId(Date.now()), time: Date.now(), key: `key${i % 50}`, model: "m", target: "p:m", protocol: "wire" },
    ...{ operation: "generate", status: 200, outcome: "completed", streaming: true, source: "reported", cost: 1000 },
    ...{ attempts: [{ target: "p:m", status: 200, startedAt: Date.now() }], duration: 5, firstByte: 1 },
    usage: { in: { total: 1000, cached: 10 }, out: { total: 100 }, raw: undefined },
  });
  const [begun, cpu] = [performance.now(), process.cpuUsage()];
  for (let i = 0; i < ROWS; i++) {
    ledger.append(entry(i));
    if (i % 100 === 99) ledger.persist();
  }
  await ledger.flush();
  const { user, system } = process.cpuUsage(cpu);
  const [sum] = await ledger.sums({ by: [] });
  if (sum?.requests !== ROWS) throw new Error(`${sum?.requests} rows are there, not ${ROWS}`);
  const seconds = (performance.now() - begun) / 1000;
  const used = (user + system) / 1e6;
  console.log(
    `${ROWS} rows through the journal into SQLite: ${Math.round(ROWS / seconds)} a second, ${Math.round(ROWS / used)} for each second of CPU`,
  );
  await ledger.close();
}

const folder = mkdtempSync(join(tmpdir(), "gateway-money-"));
try {
  await overhead(folder);
  await rows(folder);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
process.exit(0);
