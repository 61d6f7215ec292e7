/**
 * `npm run fuzz -- TARGET [SECONDS] [--keep]`: random bytes for one part of the gateway, led by what they reach in it. What is
 * taken wrongly is printed and kept in a file; `npm run fuzz -- TARGET FILE` tries that again, and `npm run fuzz -- TARGET
 * base64:…` what another machine has printed. With --keep, the smallest inputs that reach all that was reached become
 * test/fuzz/corpus/TARGET.jsonl. Without SECONDS it runs for 20 seconds, from the same seed unless GATEWAY_TEST_SEED is another:
 * what `npm run full` does, and `.ci/run` with a seed of its commit's.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { Coverage } from "../support/coverage.ts";
import { failure, type Guided, guided, type Target } from "../support/guided.ts";
import { corpusFile, readCorpus, writeCorpus } from "./corpus.ts";

/** Seconds where nobody says how many. */
const SECONDS = 20;
/** The part of them that it runs on a processor at least: beside others, who come first, it goes on for longer. */
const MIN_RUNNING = 0.25;

/** Seconds of CPU for one input, unless its target says otherwise: it may run beside others who come first. */
const MAX_INPUT_TIME = 20;
/** Bytes of an input that the watchdog can tell. */
const ROOM = 1 << 16;

/** Ends the process, and tells the input, where one takes too long: this thread cannot, then. */
function watchdog(name: string, seed: number, seconds = MAX_INPUT_TIME): (bytes: Buffer) => void {
  const shared = new SharedArrayBuffer(8 + ROOM);
  const [state, room] = [new Int32Array(shared, 0, 2), new Uint8Array(shared, 8)];
  const told = `It hangs, from seed ${seed}: ${again(name)}`;
  const program = `
    const { workerData: { shared, file, seconds, told } } = require("node:worker_threads");
    const state = new Int32Array(shared, 0, 2);
    const used = () => process.cpuUsage().user / 1e6;
    let [before, since] = [-1, used()];
    setInterval(() => {
      if (state[0] !== before) [before, since] = [state[0], used()];
      else if (used() - since > seconds) {
        const bytes = Buffer.from(new Uint8Array(shared, 8, state[1]));
        require("node:fs").writeFileSync(file, bytes);
        require("node:fs").writeSync(2, told + bytes.toString("base64") + "\\nkept in " + file + "\\n");
        process.kill(process.pid, "SIGKILL");
      }
    }, 500);`;
  const worker = new Worker(program, {
    eval: true,
    workerData: { shared, file: fileOf(name), seconds, told },
  });
  worker.unref();
  return (bytes) => {
    room.set(bytes.subarray(0, ROOM));
    state[1] = Math.min(bytes.length, ROOM);
    Atomics.add(state, 0, 1);
  };
}

const fileOf = (name: string): string => join(tmpdir(), `gateway-fuzz-${name}-${process.pid}`);
/** The beginning of the command that tries an input again. */
const again = (name: string): string => `npm run fuzz -- ${name} base64:`;

function report(name: string, seed: number, { runs, corpus, crash }: Guided, coverage: Coverage, began: number): void {
  const seconds = Math.round((performance.now() - began) / 1000);
  const reached = `${corpus.length} reach ${coverage.size} characters of source`;
  console.log(`${name}: ${runs} inputs in ${seconds} s from seed ${seed}, ${reached}`);
  if (!crash) return;
  writeFileSync(fileOf(name), crash.bytes);
  console.error(`${crash.error.stack}\n${JSON.stringify(crash.bytes.toString("latin1"))}\nkept in ${fileOf(name)}`);
  console.error(`${again(name)}${crash.bytes.toString("base64")}`);
  process.exitCode = 1;
}

/** How long it goes on: a number of inputs, or seconds. */
function limit(seconds: number): (runs: number) => boolean {
  const most = Number(process.env["GATEWAY_TEST_FUZZ_INPUTS"] ?? 0);
  if (most > 0) return (runs) => runs >= most;
  const end = performance.now() + seconds * 1000;
  const { user } = process.cpuUsage();
  const ran = () => (process.cpuUsage().user - user) / 1e6;
  return () => performance.now() > end && ran() > seconds * MIN_RUNNING;
}

async function main(args: readonly string[]): Promise<void> {
  const [name = "", what] = args.filter((each) => each !== "--keep");
  const coverage = new Coverage();
  const { TARGETS } = (await import(process.env["GATEWAY_TEST_FUZZ_TARGETS"] ?? "./targets.ts")) as {
    TARGETS: Readonly<Record<string, Target>>;
  };
  const target = TARGETS[name];
  if (!target)
    throw new Error(`npm run fuzz -- TARGET [SECONDS], where TARGET is one of ${Object.keys(TARGETS).join(" ")}`);
  if (what !== undefined && Number.isNaN(Number(what))) {
    const [, text] = /^base64:(.*)$/.exec(what) ?? [];
    const error = failure(target, text === undefined ? readFileSync(what) : Buffer.from(text, "base64"));
    console.log(error?.stack ?? "It is taken well.");
    process.exitCode = error ? 1 : 0;
    return;
  }
  const began = performance.now();
  const seed = Number(process.env["GATEWAY_TEST_SEED"] ?? (what === undefined ? 1 : Date.now() % 1_000_000));
  const result = guided(target, {
    until: limit(what === undefined ? SECONDS : Number(what)),
    corpus: readCorpus(name),
    seed,
    coverage,
    trying: watchdog(name, seed, target.seconds),
  });
  report(name, seed, result, coverage, began);
  if (args.includes("--keep")) console.log(`${writeCorpus(name, result.corpus)} bytes in ${corpusFile(name)}`);
}

await main(process.argv.slice(2));
