import { existsSync, fstatSync, statSync, writeFileSync } from "node:fs";
import { devNull } from "node:os";
import { dirname, join, resolve } from "node:path";
import { argumentErrorText, BUNDLED_CONFIG, COMMAND, type ConfigLocation, type Terminal } from "./cli/verb.ts";
import { VERBS } from "./cli/verbs.ts";
import { reportForeignExit } from "./crash.ts";
import { formatError, printError, UsageError } from "./text/format-error.ts";

const EXIT_CODES = "Exit codes: 0 done, 1 could not be done or something is wrong, 2 not understood.";

const help = async () => `usage: ${COMMAND} VERB …

  ${(await Promise.all(Object.values(VERBS).map((load) => load()))).map((verb) => verb.help).join("\n  ")}
  help [VERB]                  this text; VERB --help: what one verb takes
  --version                    the version of this program

Every verb takes --config FILE; without it, gateway.yaml of this folder or the one that came along.
${EXIT_CODES}`;

/**
 * Returns the file named by --config, gateway.yaml in the folder, or the bundled one, with relative paths based in the working
 * folder: an installed package is no place for a ledger. Removes `--config` from the arguments.
 * @throws UsageError where it names no file: the default would not be the intended file
 */
function configPlace(args: string[], folder: string): ConfigLocation {
  const end = args.indexOf("--");
  const at = args.findIndex((arg, i) => (end < 0 || i < end) && (arg === "--config" || arg.startsWith("--config=")));
  const flag = at < 0 ? undefined : args[at];
  if (flag !== undefined) {
    const inline = flag.includes("=");
    const value = inline ? flag.slice("--config=".length) : args[at + 1];
    args.splice(at, inline ? 1 : 2);
    if (!value || (!inline && value.startsWith("-")))
      throw new UsageError("--config needs a file, like --config gateway.yaml; an unset variable leaves it empty.");
    return { file: resolve(folder, value), folder: dirname(resolve(folder, value)), named: true };
  }
  const own = join(folder, "gateway.yaml");
  return { file: existsSync(own) ? own : BUNDLED_CONFIG, folder };
}

/** Returns the usage of a verb with its exit codes, the common ones if it has none of its own. */
const verbUsage = ({ USAGE }: { USAGE: string }): string =>
  USAGE.includes("Exit codes:") ? USAGE : `${USAGE}\n\n${EXIT_CODES}`;

/** Exits when standard output cannot be written: without an error where its reader closed it early, as `head` does. */
function exitOnOutputError(): void {
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code === "EPIPE") process.exit(0);
    process.stderr.write(`Standard output cannot be written: ${error.message}.\n`);
    process.exit(1);
  });
}

/** Prints a text that is no verb's. Returns the exit code. */
function print(io: Terminal, text: string): number {
  exitOnOutputError();
  io.out(text);
  return 0;
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

const version = async (): Promise<string> => (await import("./core/version.ts")).GATEWAY_VERSION;

/**
 * Loads the verb of that name.
 * @throws UsageError that names the nearest one
 */
async function loadVerb(word: string) {
  const load = Object.hasOwn(VERBS, word) ? VERBS[word] : undefined;
  if (load) return load();
  const { suggestion } = await import("./config/suggest.ts");
  const verbs = Object.keys(VERBS);
  const meant = suggestion(word, [...verbs, "--version"], "");
  throw new UsageError(
    `unknown verb "${word}"${meant}\nverbs: ${verbs.join(" ")}\n${COMMAND} help says what each does`,
  );
}

async function main(argv: readonly string[]): Promise<number> {
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
  // Arguments after -- belong to another program that a verb starts; npm start removes its own --.
  const args = argv[0] === "--" ? argv.slice(1) : [...argv];
  if (args[0] === "--version") return print(io, await version());
  const location = configPlace(args, io.folder);
  const word = args[0]?.startsWith("-") ? undefined : args.shift();
  if (args[0] === "--version") return print(io, await version());
  const ours = args.includes("--") ? args.slice(0, args.indexOf("--")) : args;
  if (word === "help" || ours.includes("--help") || ours.includes("-h")) {
    const named = word === "help" ? ours.find((arg) => !arg.startsWith("-")) : word;
    return print(io, named === undefined ? await help() : verbUsage(await loadVerb(named)));
  }
  reportForeignExit(io.err);
  const name = word ?? "run";
  if (name === "run") handleEarlySignals();
  const verb = await loadVerb(name);
  if (name !== "run") exitOnOutputError();
  let code = 1;
  try {
    code = await verb.run(args, io, location);
  } catch (thrown) {
    if (thrown instanceof UsageError) {
      io.err(argumentErrorText(thrown.message, verb.USAGE, args));
      code = 2;
    } else printError(thrown, io, ours.includes("--json"));
  }
  if (!verb.exits) return code;
  if (name !== "run") await outputWritten();
  return process.exit(code);
}

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (thrown) {
  process.stderr.write(`${escapeControls(thrown instanceof UsageError ? thrown.message : formatError(thrown))}\n`);
  process.exitCode = thrown instanceof UsageError ? 2 : 1;
}
