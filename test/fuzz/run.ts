/**
 * `npm run fuzz -- TARGET SECONDS [--keep]`: random bytes for one part of the gateway, led by what they reach in it. What is
 * taken wrongly is printed and kept in a file; `npm run fuzz -- TARGET FILE` tries that again. With --keep, the smallest inputs
 * that reach all that was reached become test/fuzz/corpus/TARGET.jsonl.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { Coverage } from "../support/coverage.ts";
import { failure, type Guided, guided, type Target } from "../support/guided.ts";
import { corpusFile, readCorpus, writeCorpus } from "./corpus.ts";

/** Seconds for one input, whatever the machine is doing besides. */
const LONGEST = 20;
/** Bytes of an input that the watchdog can tell. */
const ROOM = 1 << 16;

/** Ends the process, and tells the input, where one takes too long: this thread cannot, then. */
function watchdog(name: string): (bytes: Buffer) => void {
  const shared = new SharedArrayBuffer(8 + ROOM);
  const [state, room] = [new Int32Array(shared, 0, 2), new Uint8Array(shared, 8)];
  const program = `
    const { workerData: { shared, file, seconds } } = require("node:worker_threads");
    const state = new Int32Array(shared, 0, 2);
    let [before, since] = [-1, Date.now()];
    setInterval(() => {
      if (state[0] !== before) [before, since] = [state[0], Date.now()];
      else if (Date.now() - since > seconds * 1000) {
        require("node:fs").writeFileSync(file, new Uint8Array(shared, 8, state[1]).slice());
        require("node:fs").writeSync(2, "It hangs: " + file + "\\n");
        process.kill(process.pid, "SIGKILL");
      }
    }, 500);`;
  const worker = new Worker(program, { eval: true, workerData: { shared, file: fileOf(name), seconds: LONGEST } });
  worker.unref();
  return (bytes) => {
    room.set(bytes.subarray(0, ROOM));
    state[1] = Math.min(bytes.length, ROOM);
    Atomics.add(state, 0, 1);
  };
}

const fileOf = (name: string): string => join(tmpdir(), `gateway-fuzz-${name}-${process.pid}`);

function report(name: string, { runs, corpus, crash }: Guided, coverage: Coverage, seconds: number): void {
  console.log(`${name}: ${runs} inputs in ${seconds} s, ${corpus.length} reach ${coverage.size} characters of source`);
  if (!crash) return;
  writeFileSync(fileOf(name), crash.bytes);
  console.error(`${crash.error.stack}\n${JSON.stringify(crash.bytes.toString("latin1"))}\nkept in ${fileOf(name)}`);
  process.exitCode = 1;
}

async function main([name = "", what = "20", keep]: readonly string[]): Promise<void> {
  const coverage = new Coverage();
  const { TARGETS } = await import("./targets.ts");
  const target: Target | undefined = TARGETS[name];
  if (!target)
    throw new Error(`npm run fuzz -- TARGET SECONDS, where TARGET is one of ${Object.keys(TARGETS).join(" ")}`);
  if (Number.isNaN(Number(what))) {
    console.log(failure(target, readFileSync(what))?.stack ?? "It is taken well.");
    return;
  }
  const seconds = Number(what);
  const end = performance.now() + seconds * 1000;
  const result = guided(target, {
    until: () => performance.now() > end,
    corpus: readCorpus(name),
    seed: Number(process.env["GATEWAY_TEST_SEED"] ?? Date.now() % 1_000_000),
    coverage,
    trying: watchdog(name),
  });
  report(name, result, coverage, seconds);
  if (keep === "--keep") console.log(`${writeCorpus(name, result.corpus)} bytes in ${corpusFile(name)}`);
}

await main(process.argv.slice(2));
