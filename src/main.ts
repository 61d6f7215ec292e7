import { fstatSync, statSync, writeFileSync } from "node:fs";
import { devNull } from "node:os";
import { runCommandLine } from "./cli/command-line.ts";
import type { Terminal } from "./cli/verb.ts";
import { reportForeignExit } from "./crash.ts";

/** Exits when standard output cannot be written: without an error where its reader closed it early, as `head` does. */
function exitOnOutputError(): void {
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code === "EPIPE") process.exit(0);
    process.stderr.write(`Standard output cannot be written: ${error.message}.\n`);
    process.exit(1);
  });
}

/** Resolves when the output has been written; where it cannot be, `exitOnOutputError` ends the process a moment later. */
const outputWritten = (): Promise<void> =>
  new Promise((done) => process.stdout.write("", (error) => void (error ? undefined : done())));

/**
 * Writes a line to standard output before it returns.
 * @throws Error if that cannot be written, or nobody can read it: for an output that was closed, Node opens the null device
 */
function writeNow(line: string): void {
  const { fd } = process.stdout;
  const { rdev } = fstatSync(fd);
  if (rdev !== 0 && rdev === statSync(devNull, { throwIfNoEntry: false })?.rdev)
    throw new Error(`standard output is closed, or ${devNull}`);
  writeFileSync(fd, `${line}\n`);
}

/**
 * Escapes control characters, as JSON does: names in files of others, and what providers say, must not command the terminal. In
 * JSON they mean the same.
 */
const escapeControls = (text: string): string =>
  text.replace(/(?![\n\t])\p{Cc}/gu, (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, "0")}`);

const CLEAR_SCREEN = "\u001b[H\u001b[2J";

/** Handles signals before the gateway has started: it is about to read its file anyway, and has nothing to stop. */
function handleEarlySignals(): void {
  for (const signal of ["SIGHUP", "SIGUSR2"] as const) process.on(signal, () => {});
  // Another listener stops what has been started by then.
  process.on("SIGTERM", () => process.listenerCount("SIGTERM") === 1 && process.exit(0));
}

const io: Terminal = {
  out: (line) => void process.stdout.write(`${escapeControls(line)}\n`),
  outNow: writeNow,
  err: (line) => void process.stderr.write(`${escapeControls(line)}\n`),
  clear: () => void process.stdout.write(CLEAR_SCREEN),
  get rows() {
    return process.stdout.rows as number | undefined;
  },
  env: process.env,
  folder: process.cwd(),
};
let verb: string | undefined;
const { code, exits } = await runCommandLine(process.argv.slice(2), io, (name) => {
  verb = name;
  if (name !== undefined) reportForeignExit(io.err);
  // A gateway goes on without its log.
  if (name === "run") handleEarlySignals();
  else exitOnOutputError();
});
if (!exits) process.exitCode = code;
else {
  if (verb !== "run") await outputWritten();
  process.exit(code);
}
