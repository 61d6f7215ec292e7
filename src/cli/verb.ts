import { existsSync, realpathSync } from "node:fs";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";
import { type ParseArgsConfig, parseArgs } from "node:util";
import { nearest, suggestion } from "../config/suggest.ts";
import { thrownMessage } from "../core/errors.ts";
import { storeErrorMessage } from "../store/sqlite/errors.ts";
import { UsageError } from "../text/format-error.ts";
import { parsePastMoment } from "../text/moments.ts";

/** The bundled gateway.yaml. */
export const BUNDLED_CONFIG = fileURLToPath(new URL("../../gateway.yaml", import.meta.url));

/** The output of a verb, and its view of the process. */
export interface Terminal {
  out(line: string): void;
  /** Writes to standard output before it returns, for what cannot be printed again. @throws Error if that cannot be written */
  outNow(line: string): void;
  err(line: string): void;
  /** Clears the screen. */
  clear?(): void;
  /** Lines of the screen; absent: there is none. */
  readonly rows?: number | undefined;
  env: NodeJS.ProcessEnv;
  /** The base of relative paths. */
  folder: string;
}

/** The help texts of a verb. */
export interface VerbHelp {
  /** The lines in the overall help. */
  readonly help: string;
  /** The text of the verb's `--help`. */
  readonly USAGE: string;
}

/** The gateway.yaml of a verb. */
export interface ConfigLocation {
  /** Absolute; it need not exist. */
  file: string;
  /** The base of relative paths in the file. */
  folder: string;
  /** Set if given by --config. */
  named?: true;
}

/**
 * Describes a mistake on the command line, with the matching lines of the usage; `--help` has the rest.
 * @param usage the verb's
 * @param args the verb's arguments: the first word may select one of several forms
 */
export function argumentErrorText(message: string, usage: string, args: readonly string[] = []): string {
  const [head = ""] = usage.split("\n\n", 1);
  // A form may continue on further lines.
  const forms = head.replace(/^usage: /, "").split(/\n {7}(?! )/);
  const wordsOf = (form: string) => form.slice(COMMAND.length + 1).split(/[ |]/);
  const [verb] = wordsOf(forms[0] ?? "");
  const word = args.find((arg) => !arg.startsWith("-"));
  const own = forms.filter((form) => word !== undefined && wordsOf(form).includes(word, 1));
  const shown = (own.length > 0 ? own : forms).join("\n       ");
  return `${message}\n\nusage: ${shown}\nsee: ${COMMAND} ${verb} --help`;
}

/**
 * Parses a verb's options and words.
 * @param maxPositionals maximum number of words besides options
 * @throws UsageError
 */
export function parseVerbArguments<const T extends NonNullable<ParseArgsConfig["options"]>>(
  args: readonly string[],
  options: T,
  maxPositionals = 0,
) {
  try {
    const parsed = parseArgs({ args: [...args], options, allowPositionals: true, tokens: true });
    const { positionals, tokens } = parsed;
    const given = new Set<string>();
    for (const token of tokens) {
      if (token.kind !== "option" || token.value === undefined || options[token.name]?.multiple) continue;
      // Node takes the last one: with `--provider a --provider b` nobody would notice that a is ignored.
      if (given.has(token.name)) throw new Error(`--${token.name} is given twice.`);
      given.add(token.name);
    }
    if (positionals.length > maxPositionals)
      throw new Error(`"${positionals[maxPositionals]}" is one word too many; options begin with --.`);
    return parsed;
  } catch (thrown) {
    const message = optionMessage(thrownMessage(thrown));
    const unknown = /^Unknown option '--(.+)'/.exec(message)?.[1];
    const near = unknown === undefined ? undefined : nearest(unknown, Object.keys(options));
    throw new UsageError(near === undefined ? message : `${message.replace(/\.$/, "")}, did you mean --${near}?`);
  }
}

/** Returns Node's message about an option in our words. */
function optionMessage(message: string): string {
  const [, name, kind] =
    /^Option '(?:-\w, )?(--[^ ']+)(?: <value>)?' (argument missing|argument is ambiguous)/.exec(message) ?? [];
  if (name !== undefined)
    return `${name} needs a value${kind === "argument missing" ? "" : ` (one that begins with - is written ${name}=-…)`}.`;
  return (
    message
      .replace(/^Option '(--[^ ']+)' does not take an argument$/, "$1 takes no value.")
      // Node's hint for words that begin with - fits none of ours.
      .replace(/ To specify a positional argument .*/s, "")
  );
}

/** Returns the error for a command that a verb does not have, with the one that was probably meant, or for none. */
export function wrongCommand(verb: string, word: string | undefined, commands: readonly string[]): UsageError {
  if (word === undefined || word === "") return new UsageError(`${verb} needs a command: ${commands.join(", ")}.`);
  return new UsageError(
    `${verb} has no command "${word}"${suggestion(word, commands, `; it has ${commands.join(", ")}.`)}`,
  );
}

/**
 * Parses an option's value.
 * @param parse throws an Error that says what is accepted
 * @throws UsageError that names the option
 */
export function parseOption<T>(option: string, parse: () => T): T {
  try {
    return parse();
  } catch (thrown) {
    throw new UsageError(`${option}: ${thrownMessage(thrown).replace(/\.$/, "")}.`);
  }
}

/** Prints a value as indented JSON. */
export const printJson = (value: unknown, io: Pick<Terminal, "out">): void =>
  io.out(JSON.stringify(value, undefined, 2));

/** Options of verbs that reach the gateway as clients do. */
export const FRONT_OPTIONS = {
  url: { type: "string" },
  key: { type: "string" },
  model: { type: "string" },
  json: { type: "boolean" },
} as const;

/** Parses `--url`, the gateway as clients reach it, with or without the version segment. @throws UsageError */
export function parseBaseUrl(text: string): string {
  if (!/^https?:$/.test(URL.parse(text)?.protocol ?? ""))
    throw new UsageError(`--url "${text}" is not a URL; write one like https://gateway.example.com`);
  return text.replace(/\/+$/, "").replace(/\/v1(?:beta)?$/, "");
}

/** Parses an option's past moment to Unix milliseconds; undefined without one. @param zone of days @throws UsageError */
export const parsePastOption = (
  option: string,
  text: string | undefined,
  zone: () => string,
  now = Date.now(),
): number | undefined => (text === undefined ? undefined : parseOption(option, () => parsePastMoment(text, now, zone)));

/**
 * Prints an error's message, without a stack. Returns the exit code 1.
 * @throws UsageError, which is printed with the verb's usage
 */
export function printFailure(thrown: unknown, io: Pick<Terminal, "err">): 1 {
  if (thrown instanceof UsageError) throw thrown;
  io.err(storeErrorMessage(thrown));
  return 1;
}

/**
 * Returns the command that starts this file's gateway: its own name, if that is on the reader's PATH, as in the image; its path
 * where it was installed with a prefix, as npx would look for another package there; else npm in a checkout, npx for a package.
 */
export function commandAt(file: string, path = process.env["PATH"] ?? ""): string {
  const bin = realPathOf(fileURLToPath(new URL("../../bin/model-gateway", file)));
  // npm and npx add these only for their child processes.
  const folders = path.split(delimiter).filter((folder) => folder && !folder.endsWith(join("node_modules", ".bin")));
  if (folders.some((folder) => realPathOf(join(folder, "model-gateway")) === bin)) return "model-gateway";
  const ofPrefix = fileURLToPath(new URL("../../../../../bin/model-gateway", file));
  if (realPathOf(ofPrefix) === bin) return ofPrefix;
  return /[\\/]node_modules[\\/]/.test(file) ? "npx model-gateway" : "npm start --";
}

/** Resolves symbolic links; returns the path unchanged if it does not exist. */
const realPathOf = (path: string): string => (existsSync(path) ? realpathSync(path) : path);

/** The command before a verb, for hints to paste. */
export const COMMAND = commandAt(import.meta.url);
