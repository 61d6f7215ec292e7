// Measures the cost of keys' limits, the ledger and its journal, interleaved with a gateway whose limiter and ledger do
// nothing, and with one without the plugins that use them; how long they block the serving thread at most; and how many rows a
// second the store takes.
// Client and provider run in a separate process.
// node_modules/.bin/node --import ./src/loader/register.js test/bench/money.ts [requests of a round] [rounds] [rows]
import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, openSync, readSync, rmSync, writeFileSync } from "node:fs";
import { Agent, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PerformanceObserver } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import { newId } from "../../src/core/id.ts";
import { Gateway } from "../../src/gateway.ts";
import { journalFolder } from "../../src/store/journal/files.ts";
import { Journal } from "../../src/store/journal/journal.ts";
import { JournaledLedger } from "../../src/store/journal/journaled-ledger.ts";
import { LedgerThread } from "../../src/store/journal/ledger-thread.ts";
import type { LedgerEntry } from "../../src/store/ledger.ts";
import { MemoryLimiter } from "../../src/store/memory-limiter.ts";
import { KEY, MemoryLog } from "../support/gateway.ts";
import { httpUpstream } from "../support/upstream.ts";

const [REQUESTS = 2000, ROUNDS = 15, ROWS = 50_000] = process.argv.slice(2).map(Number);
/** The argument of the process with client and provider. */
const LOAD = "load";
/** Concurrent requests. */
const CONCURRENT = 32;
const BODY = JSON.stringify({ model: "m", max_tokens: 10, messages: [{ role: "user", content: "Hello there" }] });
const ANSWER = JSON.stringify({
  id: "c",
  choices: [{ index: 0, message: { role: "assistant", content: "Hi" }, finish_reason: "stop" }],
  usage: { prompt_tokens: 7, completion_tokens: 3, total_tokens: 10 },
});

/** Maximum microseconds that anything may block the serving thread. */
const LONG = 1000;

/**
 * One stretch of work on the serving thread: when, and microseconds of wall time, as the kernel's CPU ticks are longer than any
 * stretch.
 */
interface Stretch {
  begun: number;
  ended: number;
  took: number;
  /** Calls in it. */
  calls: number;
}

/** Stretches of one kind: their number, and the long ones. */
class Stretches {
  count = 0;
  private readonly long: Stretch[] = [];

  add(stretch: Stretch): void {
    this.count++;
    if (stretch.took > LONG / 4) this.long.push(stretch);
  }

  forget(): void {
    this.count = 0;
    this.long.length = 0;
  }

  /** Summarizes them; those with a garbage collection are listed separately, as its time does not depend on them. */
  summary(collections: readonly Stretch[]): string {
    const collected = ({ begun, ended }: Stretch) => collections.some((one) => one.begun < ended && one.ended > begun);
    const apart = this.long.filter((stretch) => !collected(stretch));
    const none: Stretch = { begun: 0, ended: 0, took: 0, calls: 0 };
    const longest = (stretches: readonly Stretch[]) =>
      stretches.reduce((most, stretch) => (stretch.took > most.took ? stretch : most), none);
    const words = ({ took, calls }: Stretch) => `${Math.round(took)} µs${calls > 1 ? ` for ${calls} calls` : ""}`;
    const over = (stretches: readonly Stretch[]) => stretches.filter(({ took }) => took > LONG).length;
    const most = apart.length === 0 ? `${LONG / 4} µs` : words(longest(apart));
    return `${this.count} times, at most ${most}, ${over(apart)} of more than 1 ms; ${over(this.long) - over(apart)} more with a collection of garbage, at most ${words(longest(this.long))}`;
  }
}
const stretches: Record<string, Stretches> = {};
/** All stretches in one turn of the event loop. */
let turn: Stretch | undefined;
const turns = new Stretches();
/** For comparison, the clock is polled for as long after each turn: long stretches there are caused by the machine. */
const idling = new Stretches();
/** Stretches in which another program had the core: their duration proves nothing. */
let interrupted = 0;

const status = openSync("/proc/thread-self/status", "r");
const bytes = Buffer.alloc(4096);

/** Returns how often this thread was preempted. Waiting for a disk is voluntary and does not count. */
function interruptions(): string | undefined {
  const text = bytes.toString("latin1", 0, readSync(status, bytes, 0, bytes.length, 0));
  return /nonvoluntary_ctxt_switches:\s*(\d+)/.exec(text)?.[1];
}

/** Measures every call of a method. */
function watch<Owner extends object>(owner: Owner, name: keyof Owner & string, label: string): void {
  const real = Reflect.get(owner, name) as (...given: unknown[]) => unknown;
  const sum = new Stretches();
  stretches[label] = sum;
  Reflect.set(owner, name, function (this: unknown, ...given: unknown[]) {
    const before = interruptions();
    const begun = performance.now();
    const result = real.apply(this, given);
    const ended = performance.now();
    if (interruptions() !== before) {
      interrupted++;
      return result;
    }
    const stretch = { begun, ended, took: (ended - begun) * 1000, calls: 1 };
    sum.add(stretch);
    inTurn(stretch);
    return result;
  });
}

function inTurn(stretch: Stretch): void {
  if (turn) {
    turn.took += stretch.took;
    turn.calls++;
    turn.ended = stretch.ended;
    return;
  }
  const one = { ...stretch };
  turn = one;
  setImmediate(() => {
    turn = undefined;
    turns.add(one);
    idleFor(Math.min(one.took, LONG / 2));
  });
}

function idleFor(long: number): void {
  const before = interruptions();
  const begun = performance.now();
  let ended = begun;
  while ((ended - begun) * 1000 < long) ended = performance.now();
  if (interruptions() === before) idling.add({ begun, ended, took: (ended - begun) * 1000, calls: 0 });
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

/** The other process: the provider, and the client when it receives a port and a number of requests. */
async function load(): Promise<void> {
  const upstream = await httpUpstream((_, reply) => {
    reply.setHeader("content-type", "application/json").end(ANSWER);
  });
  const agent = new Agent({ keepAlive: true, maxSockets: CONCURRENT });
  process.on("message", async ({ port, requests }: Round) => {
    let left = requests;
    const loop = async () => {
      while (left-- > 0) await ask(agent, port);
    };
    await Promise.all(Array.from({ length: CONCURRENT }, loop));
    process.send?.("done");
  });
  process.on("disconnect", () => process.exit());
  process.send?.(upstream.origin.origin);
}

interface Round {
  port: number;
  requests: number;
}

/** The process with client and provider. */
class Load {
  private readonly child = fork(import.meta.filename, [LOAD]);

  /** @returns the provider's address */
  async started(): Promise<string> {
    const [provider] = (await once(this.child, "message")) as [string];
    return provider;
  }

  /**
   * Returns microseconds of CPU per request: of this thread, and of the process with the ledger's thread, until all rows are
   * stored.
   */
  async round({ address: { port }, stores }: Gateway, requests: number): Promise<{ thread: number; process: number }> {
    const [thread, all] = [process.threadCpuUsage(), process.cpuUsage()];
    this.child.send({ port, requests } satisfies Round);
    await once(this.child, "message");
    await stores.ledger.flush();
    const own = process.threadCpuUsage(thread);
    const both = process.cpuUsage(all);
    return { thread: (own.user + own.system) / requests, process: (both.user + both.system) / requests };
  }

  stop(): void {
    this.child.disconnect();
  }
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

/** Replaces a gateway's limiter and ledger by ones that do nothing; clients get the same headers about limits. */
function idle(gateway: Gateway): void {
  const state = { limit: 100_000_000, remaining: 99_999_999, reset: 60_000 };
  const granted = { grant: { requests: state, tokens: state } };
  Object.assign(gateway.limiter, { reserve: () => granted, settle: () => {} });
  Object.assign(gateway.stores.ledger, { begin: () => {}, append: () => {}, persist: () => {} });
}

async function overhead(folder: string): Promise<void> {
  const load = new Load();
  const provider = await load.started();
  const limits = `limits: { default: ${LIMITS}, all: ${LIMITS}, groups: { acme: ${LIMITS} }, models: { m: ${LIMITS} } }`;
  const full = await start(join(folder, "full"), provider, limits);
  const without = await start(join(folder, "without"), provider, limits);
  idle(without);
  const bare = await start(join(folder, "bare"), provider, "chains: { llm: [sse, auth, scrub, models, rewrite] }");
  const gateways = [full, without, bare];
  for (let i = 0; i < 3; i++) for (const gateway of gateways) await load.round(gateway, REQUESTS);
  const took = gateways.map(() => ({ thread: [] as number[], process: [] as number[] }));
  for (let i = 0; i < ROUNDS; i++) {
    const found = new Map<Gateway, { thread: number; process: number }>();
    for (const gateway of i % 2 === 0 ? gateways : gateways.toReversed())
      found.set(gateway, await load.round(gateway, REQUESTS));
    const all = found.get(full) as { thread: number; process: number };
    for (const [at, gateway] of gateways.entries()) {
      const { thread, process } = found.get(gateway) as typeof all;
      took[at]?.thread.push(at === 0 ? thread : all.thread - thread);
      took[at]?.process.push(at === 0 ? process : all.process - process);
    }
  }
  const [all, calls, plugins] = took.map(({ thread, process }) => [median(thread), median(process)] as const);
  const words = (of: readonly [number, number] | undefined) =>
    of && `${of[0].toFixed(1)} µs of CPU a request on the serving thread, ${of[1].toFixed(1)} µs with the ledger's`;
  console.log(`limiter, ledger and journal: ${words(calls)}
with the plugins that ask them, the reading of usage and the headers about limits: ${words(plugins)}
the gateway in all: ${words(all)} (medians of ${ROUNDS} rounds of ${REQUESTS})`);
  // In separate rounds, as measuring each call costs more than the call.
  watch(Journal.prototype, "write", "journal write");
  watch(JournaledLedger.prototype, "begin", "ledger begin");
  watch(JournaledLedger.prototype, "append", "ledger append");
  watch(LedgerThread.prototype, "send", "message to the ledger's thread");
  watch(MemoryLimiter.prototype, "reserve", "limiter reserve");
  watch(MemoryLimiter.prototype, "settle", "limiter settle");
  // Watched methods are recompiled first.
  await load.round(full, REQUESTS);
  for (const sum of [...Object.values(stretches), turns, idling]) sum.forget();
  interrupted = 0;
  const collections: Stretch[] = [];
  const observer = new PerformanceObserver((list) => {
    for (const { startTime: begun, duration } of list.getEntries())
      collections.push({ begun, ended: begun + duration, took: duration * 1000, calls: 0 });
  });
  observer.observe({ entryTypes: ["gc"] });
  for (let i = 0; i < ROUNDS; i++) await load.round(full, REQUESTS);
  await sleep(100);
  observer.disconnect();
  for (const [label, sum] of Object.entries({ ...stretches, "all of one turn": turns, "nothing, for as long": idling }))
    console.log(`${label}: ${sum.summary(collections)}`);
  console.log(`${interrupted} left out, within which another program had the core`);
  load.stop();
  for (const gateway of gateways) await gateway.stop({ drain: 0 });
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

async function main(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "gateway-money-"));
  try {
    await overhead(folder);
    await rows(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  process.exit(0);
}

await (process.argv[2] === LOAD ? load() : main());
