// Measures reading a body and splitting a stream in isolation, in one process, interleaved, medians of 9.
// node_modules/.bin/node --import ./src/loader/register.js test/bench/micro.ts
import { isUtf8 } from "node:buffer";
import { readFileSync } from "node:fs";
import { Calendar } from "../../src/core/calendar.ts";
import type { LimitLevel } from "../../src/core/limits.ts";
import { MemoryLimiter } from "../../src/store/memory-limiter.ts";
import { Scanner, scan } from "../../src/wire/json.ts";
import { SseSplitter } from "../../src/wire/sse.ts";
import { bodyFile, build } from "./build.ts";
import { table } from "./report.ts";

const ROUNDS = 9;
/** Milliseconds for which a measured turn repeats the work. */
const TURN_MS = 30;

let result: unknown;

function milliseconds(work: () => unknown, times: number): number {
  const begun = process.hrtime.bigint();
  for (let i = 0; i < times; i++) result = work();
  return Number(process.hrtime.bigint() - begun) / 1e6;
}

/** Returns how often the work fits into a turn; also warms up the compiler. */
function repetitions(work: () => unknown): number {
  for (let times = 1; ; times *= 4) {
    const took = milliseconds(work, times);
    if (took > TURN_MS / 2) return Math.max(1, Math.round((times * TURN_MS) / took));
  }
}

/** Prints microseconds per unit of each work and the ratio to the first one. */
function compare(title: string, works: Record<string, () => unknown>, units = 1): void {
  const entries = Object.entries(works).map(([name, work]) => {
    return { name, work, times: repetitions(work), took: [] as number[] };
  });
  for (let round = 0; round < ROUNDS; round++) {
    for (const entry of entries) entry.took.push((milliseconds(entry.work, entry.times) * 1e3) / entry.times / units);
  }
  const medians = entries.map(({ took }) => took.sort((a, b) => a - b)[(ROUNDS - 1) / 2] ?? Number.NaN);
  const lines = entries.map(({ name }, i) => {
    const own = medians[i] ?? Number.NaN;
    return [name, own.toFixed(own < 10 ? 2 : 0), `${(own / (medians[0] ?? Number.NaN)).toFixed(2)} ×`];
  });
  console.log(`\n${table([title, "µs", ""], lines)}`);
}

function pieces(bytes: Buffer, size: number): Buffer[] {
  return Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) => bytes.subarray(i * size, (i + 1) * size));
}

function bodies(): void {
  for (const name of ["1k", "30k", "1m5"] as const) {
    const bytes = readFileSync(bodyFile(name));
    const reads = pieces(bytes, 65_536);
    compare(`body of ${bytes.length} bytes`, {
      "JSON.parse of the text": () => JSON.parse(bytes.toString()),
      "JSON.parse, stringify, Buffer": () => Buffer.from(JSON.stringify(JSON.parse(bytes.toString()))),
      "isUtf8 alone": () => isUtf8(bytes),
      "scan, the model found": () => scan(bytes).find("model"),
      "Scanner, in reads of 64 KiB": () => {
        const scanner = new Scanner();
        for (const read of reads) scanner.push(read);
        return scanner.end().find("model");
      },
    });
  }
}

function event(token: string): string {
  const choice = `{"index":0,"delta":{"content":"${token}"},"finish_reason":null}`;
  return `data: {"id":"chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT","object":"chat.completion.chunk","created":1741569952,"model":"m","choices":[${choice}]}\n\n`;
}

/** Splits reads into frames and counts them. */
function frames(reads: Buffer[]): number {
  const splitter = new SseSplitter();
  let count = 0;
  for (const read of reads) count += splitter.push(read).length;
  return count + (splitter.end() ? 1 : 0);
}

function streams(): void {
  const events = Array.from({ length: 200 }, (_, i) => Buffer.from(event(` token${i % 10}`)));
  const whole = Buffer.concat(events);
  const ways: [string, Buffer[]][] = [
    ["one event per read", events],
    ["all in one read", [whole]],
    ["reads of 100 bytes", pieces(whole, 100)],
  ];
  for (const [title, reads] of ways) {
    if (frames(reads) !== events.length) throw new Error(`${title}: ${frames(reads)} frames of ${events.length}`);
    compare(
      `stream of 200 events, ${title}, per event`,
      {
        "text, split, JSON.parse": () => {
          const text = Buffer.concat(reads).toString();
          return text.split("\n\n").map((each) => (each ? JSON.parse(each.slice(6)) : undefined));
        },
        SseSplitter: () => frames(reads),
      },
      events.length,
    );
  }
}

/** Measures a key with all four limits, alone and below two groups and the gateway. */
function limits(): void {
  const budgets = [{ nano: 1e15, per: "month" as const, soft: false }];
  const level = (kind: LimitLevel["kind"], name: string): LimitLevel => ({
    ...{ kind, name, scope: `${kind}:${name}` },
    limits: { rpm: 1e9, tpm: 1e12, concurrency: 1e6, budgets },
  });
  const limiter = new MemoryLimiter(
    async () => new Map(),
    new Calendar(),
    () => {},
  );
  const levels = [level("key", "k"), level("group", "a/b"), level("group", "a"), level("all", "")];
  const minimum = { tokens: 300, cost: 300_000 };
  const maximum = { tokens: 5000, cost: 5_000_000 };
  const used = { tokens: 900, cost: 900_000 };
  let id = 0;
  const both = (some: readonly LimitLevel[]) => () => {
    const name = `exchange-${id++}`;
    const reserved = limiter.reserve({ id: name, levels: some, maximum, minimum });
    limiter.settle(name, used);
    return reserved;
  };
  compare("limits of one exchange", {
    "reserve and settle, one level": both(levels.slice(0, 1)),
    "four levels": both(levels),
  });
}

build();
console.log(`Node ${process.version}`);
bodies();
streams();
limits();
if (result === undefined) console.log("nothing was measured");
