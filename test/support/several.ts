import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { cpus, tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { descendantsOf, signalled } from "./descendants.ts";
import Summary from "./reporter.js";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const REGISTER = new URL("../../src/loader/register.js", import.meta.url).href;
const PRELOAD = new URL("preload.ts", import.meta.url).href;
const TOGETHER = fileURLToPath(new URL("together.ts", import.meta.url));

/** The variable with the files, one per line: arguments would become part of `t.testdir`'s folder names, and be too long. */
export const FILES = "GATEWAY_TEST_FILES";

/** The variable with the folder in which processes that share files record which each has taken. */
export const TAKEN = "GATEWAY_TEST_TAKEN";

/** Milliseconds for one test file; same as in .taprc. */
export const MAX_FILE_TIME = Number(process.env["TAP_TIMEOUT"] ?? 300) * 1000;

/** Further milliseconds before a process that has not reported a late file itself is killed. */
export const GRACE = 5000;

/** Milliseconds between checks for idle cores, and the idle share of their time from which on they count as idle. */
const LOOK = 500;
const IDLE = 0.25;

/** The result of a process's files: a line for each, failures in full, and totals. */
export interface Ran extends Readonly<Summary["count"]> {
  readonly lines: readonly string[];
}

/** Returns the id of the process that has taken a shared file; undefined: none has. */
function takerOf(file: number, taken: string): number | undefined {
  try {
    return Number(readFileSync(join(taken, String(file)), "utf8"));
  } catch {
    return undefined;
  }
}

/** Takes a file for this process; false if another one has it. */
export function take(file: number, taken: string): boolean {
  try {
    writeFileSync(join(taken, String(file)), String(process.pid), { flag: "wx" });
    return true;
  } catch {
    return false;
  }
}

/** Returns the cores' idle and total time since boot. What runs at a lower priority leaves a core to others. */
function cores(): { idle: number; all: number } {
  const times = cpus().map((core) => core.times);
  const all = times.reduce((sum, { user, nice, sys, idle, irq }) => sum + user + nice + sys + idle + irq, 0);
  return { idle: times.reduce((sum, { nice, idle }) => sum + nice + idle, 0), all };
}

/** Calls a function whenever cores are idle, as tests may wait more than they work. Returns a function that ends this. */
export function whenIdle(act: () => void): () => void {
  let before = cores();
  const looks = setInterval(() => {
    const now = cores();
    if (now.idle - before.idle > IDLE * (now.all - before.all)) act();
    before = now;
  }, LOOK);
  return () => clearInterval(looks);
}

/**
 * Runs test files in several processes: each takes the next file after finishing another.
 * @param least processes from the start
 * @param most maximum number of processes; another one is started whenever cores are idle
 */
export async function runShared(files: readonly string[], least: number, most = least): Promise<Ran[]> {
  const taken = mkdtempSync(join(tmpdir(), "gateway-taken-"));
  const left = () => files.filter((_, i) => takerOf(i, taken) === undefined).length;
  const all: Ran[] = [];
  const job = async () => {
    // If a file kills its process, a new one takes the remaining files.
    for (let before = files.length + 1; left() > 0 && left() < before; ) {
      before = left();
      all.push(await runFiles(files, true, taken));
    }
  };
  const jobs = Array.from({ length: Math.min(least, files.length) }, job);
  const stop = whenIdle(() => {
    if (jobs.length < most && left() > 0) jobs.push(job());
  });
  try {
    for (const each of jobs) await each;
  } finally {
    stop();
    rmSync(taken, { recursive: true });
  }
  return all;
}

/**
 * Runs test files in a separate process.
 * @param together each file is a test with its name (test/support/together.ts); otherwise there is one file, which is the
 * process's program
 * @param taken the folder that records which files it takes, if others run them too
 */
export async function runFiles(files: readonly string[], together = files.length > 1, taken = ""): Promise<Ran> {
  const its = () => (taken === "" ? files : files.filter((_, i) => takerOf(i, taken) === child.pid));
  const summary = new Summary(its, together ? undefined : files[0]);
  const env = { ...process.env, TAP: "1", TAP_TIMEOUT: String(MAX_FILE_TIME / 1000), [TAKEN]: taken };
  const child = spawn(
    process.execPath,
    ["--import", REGISTER, "--import", PRELOAD, ...(together ? [TOGETHER] : files)],
    {
      cwd: ROOT,
      env: together ? { ...env, [FILES]: files.join("\n") } : env,
      stdio: ["ignore", "pipe", "inherit", "ipc"],
    },
  );
  let ended = "";
  let started: number[] = [];
  const late = patience(() => {
    // Programs that it has started, and cannot end itself any more.
    started = descendantsOf(child.pid ?? 0);
    // tap reports what was open, if it still can.
    child.kill("SIGALRM");
    setTimeout(() => child.kill("SIGKILL"), 1000).unref();
  });
  late(MAX_FILE_TIME);
  // Each limit that tap's root sets restarts the timer. It sets none at its end, when something may still be open.
  child.on("message", (message: { setTimeout?: unknown }) => {
    if (typeof message.setTimeout === "number") late(message.setTimeout || MAX_FILE_TIME);
  });
  child.on("exit", (code, signal) => {
    child.removeAllListeners("message");
    late(0);
    for (const pid of started) signalled(pid, "SIGKILL");
    if (code !== 0) ended = `its process ended with ${signal ?? code}`;
  });
  let output = "";
  const closed = new Promise((resolve) => child.once("close", resolve));
  child.stdout?.pipe(summary);
  for await (const text of summary) output += text;
  await closed;
  const { count } = summary;
  const lines = output.split("\n").slice(0, -3);
  if (ended !== "" && count.failed === 0) {
    count.failed++;
    lines.push(`FAIL ${files.join(", ")}: ${ended}`);
  }
  return { lines, ...count };
}

/** Returns a function that runs `done` after so many milliseconds, each call replacing the previous one; 0 cancels it. */
function patience(done: () => void): (ms: number) => void {
  let timer: NodeJS.Timeout | undefined;
  return (ms) => {
    clearTimeout(timer);
    timer = ms > 0 ? setTimeout(done, ms + GRACE) : undefined;
  };
}

/** Returns the last lines of a run. */
export function totals(all: readonly Ran[]): { text: string; failed: number } {
  const sum = (what: keyof Summary["count"]) => all.reduce((total, ran) => total + ran[what], 0);
  const text = `${sum("skipped")} skipped, ${sum("todo")} todo\n${sum("passed")} passed, ${sum("failed")} failed`;
  return { text, failed: sum("failed") };
}
