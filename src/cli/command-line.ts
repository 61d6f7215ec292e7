// A command line from its words to its exit code: the verb, its gateway.yaml, help and version. What concerns the process, its
// output and its signals, is in src/main.ts.
import { existsSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { formatError, printError, UsageError } from "../text/format-error.ts";
import { argumentErrorText, BUNDLED_CONFIG, COMMAND, type ConfigLocation, type Terminal } from "./verb.ts";
import { VERBS } from "./verbs.ts";

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

const version = async (): Promise<string> => (await import("../core/version.ts")).GATEWAY_VERSION;

/**
 * Loads the verb of that name.
 * @throws UsageError that names the nearest one
 */
async function loadVerb(word: string) {
  const load = Object.hasOwn(VERBS, word) ? VERBS[word] : undefined;
  if (load) return load();
  const { suggestion } = await import("../config/suggest.ts");
  const verbs = Object.keys(VERBS);
  const meant = suggestion(word, [...verbs, "--version"], "");
  throw new UsageError(
    `unknown verb "${word}"${meant}\nverbs: ${verbs.join(" ")}\n${COMMAND} help says what each does`,
  );
}

/** How a command line has ended. */
interface CommandEnd {
  readonly code: number;
  /** Whether its process exits then: a plugin may leave a timer or a connection open. */
  readonly exits: boolean;
}

/**
 * Runs a command line.
 * @param argv the words behind the program's name
 * @param begin is called before anything is printed or begun, with the verb; undefined: help or version
 */
export async function runCommandLine(
  argv: readonly string[],
  io: Terminal,
  begin: (verb?: string) => void,
): Promise<CommandEnd> {
  try {
    return await runArguments(argv, io, begin);
  } catch (thrown) {
    const mistake = thrown instanceof UsageError;
    io.err(mistake ? thrown.message : formatError(thrown));
    return { code: mistake ? 2 : 1, exits: false };
  }
}

async function runArguments(
  argv: readonly string[],
  io: Terminal,
  begin: (verb?: string) => void,
): Promise<CommandEnd> {
  // Arguments after -- belong to another program that a verb starts; npm start removes its own --.
  const args = argv[0] === "--" ? argv.slice(1) : [...argv];
  /** Prints a text that is no verb's. */
  const print = async (text: string | Promise<string>) => {
    begin();
    io.out(await text);
    return { code: 0, exits: false };
  };
  if (args[0] === "--version") return print(version());
  const location = configPlace(args, io.folder);
  const word = args[0]?.startsWith("-") ? undefined : args.shift();
  if (args[0] === "--version") return print(version());
  const ours = args.includes("--") ? args.slice(0, args.indexOf("--")) : args;
  if (word === "help" || ours.includes("--help") || ours.includes("-h")) {
    const named = word === "help" ? ours.find((arg) => !arg.startsWith("-")) : word;
    return print(named === undefined ? help() : loadVerb(named).then(verbUsage));
  }
  const name = word ?? "run";
  begin(name);
  const verb = await loadVerb(name);
  const exits = verb.exits === true;
  try {
    return { code: await verb.run(args, io, location), exits };
  } catch (thrown) {
    if (thrown instanceof UsageError) {
      io.err(argumentErrorText(thrown.message, verb.USAGE, args));
      return { code: 2, exits };
    }
    printError(thrown, io, ours.includes("--json"));
    return { code: 1, exits };
  }
}
