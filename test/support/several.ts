import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { cpus, tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import Summary from "./reporter.js";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const REGISTER = new URL("../../src/loader/register.js", import.meta.url).href;
const TOGETHER = fileURLToPath(new URL("together.ts", import.meta.url));

/** Names the files, one a line: arguments are part of the names that `t.testdir` gives its folders, and too long for that. */
export const FILES = "GATEWAY_TEST_FILES";

/** Names the folder in which processes that share their files say what each has taken. */
export const TAKEN = "GATEWAY_TEST_TAKEN";

/** Milliseconds for one test file; .taprc says the same. */
export const LONGEST = Number(process.env["TAP_TIMEOUT"] ?? 120) * 1000;

/** Milliseconds more, after which a process that has not told of a late file itself is ended. */
export const GRACE = 5000;

/** Milliseconds between two looks at whether cores are idle, and the part of their time from which on they are. */
const LOOK = 500;
const IDLE = 0.25;

/** What became of a process's files: a line for each, what failed in full, and how much there was. */
export interface Ran extends Readonly<Summary["count"]> {
  readonly lines: readonly string[];
}

/** The number of a process that has taken a file out of those that it shares with others; undefined: nobody has. */
function takerOf(file: number, taken: string): number | undefined {
  try {
    return Number(readFileSync(join(taken, String(file)), "utf8"));
  } catch {
    return undefined;
  }
}

/** Takes a file for this process; false where another one has it. */
export function take(file: number, taken: string): boolean {
  try {
    writeFileSync(join(taken, String(file)), String(process.pid), { flag: "wx" });
    return true;
  } catch {
    return false;
  }
}

/** How much the cores have had to do since the machine was started. */
function cores(): { idle: number; all: number } {
  const times = cpus().map((core) => core.times);
  const all = times.reduce((sum, { user, nice, sys, idle, irq }) => sum + user + nice + sys + idle + irq, 0);
  return { idle: times.reduce((sum, { idle }) => sum + idle, 0), all };
}

/**
 * Runs test files in several processes: each takes the next one when it has come to the end of another.
 * @param least processes from the start
 * @param most so many where files wait more than they work: another one is begun whenever cores are idle
 */
export async function runShared(files: readonly string[], least: number, most = least): Promise<Ran[]> {
  const taken = mkdtempSync(join(tmpdir(), "gateway-taken-"));
  const left = () => files.filter((_, i) => takerOf(i, taken) === undefined).length;
  const all: Ran[] = [];
  const job = async () => {
    // One that has been ended by a file leaves the others to a new one.
    for (let before = files.length + 1; left() > 0 && left() < before; ) {
      before = left();
      all.push(await runFiles(files, true, taken));
    }
  };
  const jobs = Array.from({ length: Math.min(least, files.length) }, job);
  let before = cores();
  const looks = setInterval(() => {
    const now = cores();
    if (now.idle - before.idle > IDLE * (now.all - before.all) && jobs.length < most && left() > 0) jobs.push(job());
    before = now;
  }, LOOK);
  try {
    for (const each of jobs) await each;
  } finally {
    clearInterval(looks);
    rmSync(taken, { recursive: true });
  }
  return all;
}

/**
 * Runs test files in a process of their own.
 * @param together each is a test by its name (test/support/together.ts); else there is one file, and it is the process's program
 * @param taken where it says which of them it takes, when others run them too
 */
export async function runFiles(files: readonly string[], together = files.length > 1, taken = ""): Promise<Ran> {
  const its = () => (taken === "" ? files : files.filter((_, i) => takerOf(i, taken) === child.pid));
  const summary = new Summary(its, together ? undefined : files[0]);
  const env = { ...process.env, TAP: "1", TAP_TIMEOUT: String(LONGEST / 1000), [TAKEN]: taken };
  const child = spawn(process.execPath, ["--import", REGISTER, ...(together ? [TOGETHER] : files)], {
    cwd: ROOT,
    env: together ? { ...env, [FILES]: files.join("\n") } : env,
    stdio: ["ignore", "pipe", "inherit", "ipc"],
  });
  let ended = "";
  const late = patience(() => {
    // tap tells what was open, if it still can.
    child.kill("SIGALRM");
    setTimeout(() => child.kill("SIGKILL"), 1000).unref();
  });
  late(LONGEST);
  // With each limit that tap's root sets, the time begins anew. It sets none at its end, when something may still be open.
  child.on("message", (message: { setTimeout?: unknown }) => {
    if (typeof message.setTimeout === "number") late(message.setTimeout || LONGEST);
  });
  child.on("exit", (code, signal) => {
    child.removeAllListeners("message");
    late(0);
    if (code !== 0) ended = `its process ended with ${signal ?? code}`;
  });
  let said = "";
  const closed = new Promise((resolve) => child.once("close", resolve));
  child.stdout?.pipe(summary);
  for await (const text of summary) said += text;
  await closed;
  const { count } = summary;
  const lines = said.split("\n").slice(0, -3);
  if (ended !== "" && count.failed === 0) {
    count.failed++;
    lines.push(`FAIL ${files.join(", ")}: ${ended}`);
  }
  return { lines, ...count };
}

/** A function that has something done so many milliseconds after its last call, if they are more than 0. */
function patience(done: () => void): (ms: number) => void {
  let timer: NodeJS.Timeout | undefined;
  return (ms) => {
    clearTimeout(timer);
    timer = ms > 0 ? setTimeout(done, ms + GRACE) : undefined;
  };
}

/** The last lines of a run. */
export function totals(all: readonly Ran[]): { text: string; failed: number } {
  const sum = (what: keyof Summary["count"]) => all.reduce((total, ran) => total + ran[what], 0);
  const text = `${sum("skipped")} skipped, ${sum("todo")} todo\n${sum("passed")} passed, ${sum("failed")} failed`;
  return { text, failed: sum("failed") };
}
