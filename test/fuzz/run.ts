/**
 * `npm run fuzz -- TARGET SECONDS [--keep]`: random bytes for one part of the gateway, led by what they reach in it. What is
 * taken wrongly is printed and kept in a file; `npm run fuzz -- TARGET FILE` tries that again. With --keep, the smallest inputs
 * that reach all that was reached become test/fuzz/corpus/TARGET.jsonl. Without SECONDS there are about fifteen seconds' worth of
 * inputs, the same each time for the same GATEWAY_TEST_SEED (1): what `npm run full` tries, and `.ci/run` with a seed of its
 * commit's.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setFlagsFromString } from "node:v8";
import { Worker } from "node:worker_threads";
import { Coverage } from "../support/coverage.ts";
import { failure, type Guided, guided, type Target } from "../support/guided.ts";
import { corpusFile, readCorpus, writeCorpus } from "./corpus.ts";

/** How many inputs there are where nobody says how long. */
const INPUTS: Readonly<Record<string, number>> = {
  "answer-anthropic-messages": 14_000,
  "answer-gemini": 22_000,
  "answer-openai-chat": 14_000,
  "answer-openai-responses": 15_000,
  array: 60_000,
  forms: 75_000,
  headers: 90_000,
  http: 10_000,
  json: 70_000,
  keys: 100_000,
  "openai-completions": 4000,
  "openai-embeddings": 20_000,
  "openai-images": 20_000,
  "openai-realtime": 90_000,
  path: 100_000,
  "request-anthropic-messages": 8500,
  "request-gemini": 6000,
  "request-openai-chat": 10_000,
  "request-openai-responses": 3000,
  sse: 32_000,
};

/** Seconds of CPU for one input: it may run beside others who come first. */
const MAX_INPUT_TIME = 20;
/** Bytes of an input that the watchdog can tell. */
const ROOM = 1 << 16;

/** Ends the process, and tells the input, where one takes too long: this thread cannot, then. */
function watchdog(name: string): (bytes: Buffer) => void {
  const shared = new SharedArrayBuffer(8 + ROOM);
  const [state, room] = [new Int32Array(shared, 0, 2), new Uint8Array(shared, 8)];
  const program = `
    const { workerData: { shared, file, seconds } } = require("node:worker_threads");
    const state = new Int32Array(shared, 0, 2);
    const used = () => process.cpuUsage().user / 1e6;
    let [before, since] = [-1, used()];
    setInterval(() => {
      if (state[0] !== before) [before, since] = [state[0], used()];
      else if (used() - since > seconds) {
        require("node:fs").writeFileSync(file, new Uint8Array(shared, 8, state[1]).slice());
        require("node:fs").writeSync(2, "It hangs: " + file + "\\n");
        process.kill(process.pid, "SIGKILL");
      }
    }, 500);`;
  const worker = new Worker(program, {
    eval: true,
    workerData: { shared, file: fileOf(name), seconds: MAX_INPUT_TIME },
  });
  worker.unref();
  return (bytes) => {
    room.set(bytes.subarray(0, ROOM));
    state[1] = Math.min(bytes.length, ROOM);
    Atomics.add(state, 0, 1);
  };
}

const fileOf = (name: string): string => join(tmpdir(), `gateway-fuzz-${name}-${process.pid}`);

function report(name: string, seed: number, { runs, corpus, crash }: Guided, coverage: Coverage, began: number): void {
  const seconds = Math.round((performance.now() - began) / 1000);
  const reached = `${corpus.length} reach ${coverage.size} characters of source`;
  console.log(`${name}: ${runs} inputs in ${seconds} s from seed ${seed}, ${reached}`);
  if (!crash) return;
  console.error(`GATEWAY_TEST_SEED=${seed} npm run fuzz -- ${name} begins with the same`);
  writeFileSync(fileOf(name), crash.bytes);
  console.error(`${crash.error.stack}\n${JSON.stringify(crash.bytes.toString("latin1"))}\nkept in ${fileOf(name)}`);
  process.exitCode = 1;
}

async function main([name = "", what, keep]: readonly string[]): Promise<void> {
  // Optimized code does not count all that it runs, and when code is optimized depends on the machine.
  if (what === undefined) for (const flag of ["--no-opt", "--no-maglev"]) setFlagsFromString(flag);
  const coverage = new Coverage();
  const { TARGETS } = await import("./targets.ts");
  const target: Target | undefined = TARGETS[name];
  if (!target)
    throw new Error(`npm run fuzz -- TARGET [SECONDS], where TARGET is one of ${Object.keys(TARGETS).join(" ")}`);
  if (what !== undefined && Number.isNaN(Number(what))) {
    console.log(failure(target, readFileSync(what))?.stack ?? "It is taken well.");
    return;
  }
  const began = performance.now();
  const end = began + Number(what) * 1000;
  const most = Number(process.env["GATEWAY_TEST_FUZZ_INPUTS"] ?? INPUTS[name] ?? 10_000);
  const seed = Number(process.env["GATEWAY_TEST_SEED"] ?? (what === undefined ? 1 : Date.now() % 1_000_000));
  const result = guided(target, {
    until: what === undefined ? (runs) => runs >= most : () => performance.now() > end,
    corpus: readCorpus(name),
    seed,
    coverage,
    trying: watchdog(name),
  });
  report(name, seed, result, coverage, began);
  if (keep === "--keep") console.log(`${writeCorpus(name, result.corpus)} bytes in ${corpusFile(name)}`);
}

await main(process.argv.slice(2));
