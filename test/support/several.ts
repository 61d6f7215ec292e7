import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import Summary from "./reporter.js";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const REGISTER = new URL("../../src/loader/register.js", import.meta.url).href;
const TOGETHER = fileURLToPath(new URL("together.ts", import.meta.url));

/** Names the files, one a line: arguments are part of the names that `t.testdir` gives its folders, and too long for that. */
export const FILES = "GATEWAY_TEST_FILES";

/** Milliseconds for one test file; .taprc says the same. */
export const LONGEST = Number(process.env["TAP_TIMEOUT"] ?? 120) * 1000;

/** Milliseconds more, after which a process that has not told of a late file itself is ended. */
export const GRACE = 5000;

/** What became of a process's files: a line for each, what failed in full, and how much there was. */
export interface Ran extends Readonly<Summary["count"]> {
  readonly lines: readonly string[];
}

/**
 * Runs test files in a process of their own.
 * @param together each is a test by its name (test/support/together.ts); else there is one file, and it is the process's program
 */
export async function runFiles(files: readonly string[], together = files.length > 1): Promise<Ran> {
  const summary = new Summary(files, !together);
  const env = { ...process.env, TAP: "1", TAP_TIMEOUT: String(LONGEST / 1000) };
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
