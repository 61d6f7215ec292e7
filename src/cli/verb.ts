import { existsSync, realpathSync } from "node:fs";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";
import { type ParseArgsConfig, parseArgs } from "node:util";
import { Misuse } from "../text/reason.ts";

/** The gateway.yaml that came along. */
export const BUNDLED = fileURLToPath(new URL("../../gateway.yaml", import.meta.url));

/** Where a verb writes, and what it may know of the process. */
export interface Terminal {
  out(line: string): void;
  err(line: string): void;
  env: NodeJS.ProcessEnv;
  /** The folder that relative paths start in. */
  folder: string;
}

/** What a verb says of itself. */
export interface VerbText {
  /** The lines of the overall help. */
  readonly help: string;
  /** What `--help` behind the verb prints. */
  readonly USAGE: string;
}

/** The gateway.yaml that a verb is about. */
export interface VerbPlace {
  /** Absolute; it need not exist. */
  file: string;
  /** Where relative paths in the file start. */
  folder: string;
  /** By --config; absent: nobody has said which. */
  named?: true;
}

/**
 * What is wrong with the command line, and the lines of the usage that it is about; all else `--help` tells.
 * @param usage the verb's
 * @param args what stood behind the verb: its first word may choose one of several forms
 */
export function misuseText(message: string, usage: string, args: readonly string[] = []): string {
  const [head = ""] = usage.split("\n\n", 1);
  // A form may go on in further lines.
  const forms = head.replace(/^usage: /, "").split(/\n {7}(?! )/);
  const wordsOf = (form: string) => form.slice(COMMAND.length + 1).split(/[ |]/);
  const [verb] = wordsOf(forms[0] ?? "");
  const word = args.find((arg) => !arg.startsWith("-"));
  const own = forms.filter((form) => word !== undefined && wordsOf(form).includes(word, 1));
  const shown = (own.length > 0 ? own : forms).join("\n       ");
  return `${message}\n\nusage: ${shown}\nsee: ${COMMAND} ${verb} --help`;
}

/**
 * The options and other words behind a verb.
 * @param most words besides options
 * @throws Misuse
 */
export function argumentsOf<const T extends NonNullable<ParseArgsConfig["options"]>>(
  args: readonly string[],
  options: T,
  most = 0,
) {
  try {
    const parsed = parseArgs({ args: [...args], options, allowPositionals: true });
    const { positionals } = parsed;
    if (positionals.length > most)
      throw new Error(`"${positionals[most]}" is one word too many; options begin with --.`);
    return parsed;
  } catch (thrown) {
    throw new Misuse((thrown as Error).message);
  }
}

/**
 * What starts the gateway that this file is of: its command, where the PATH of whoever reads the hint has it, as in the image; else
 * npm in a checkout, npx beside a package.
 */
export function commandAt(file: string, path = process.env["PATH"] ?? ""): string {
  const bin = realPathOf(fileURLToPath(new URL("../../bin/model-gateway", file)));
  // npm and npx put these there only for what they start.
  const folders = path.split(delimiter).filter((folder) => folder && !folder.endsWith(join("node_modules", ".bin")));
  if (folders.some((folder) => realPathOf(join(folder, "model-gateway")) === bin)) return "model-gateway";
  return /[\\/]node_modules[\\/]/.test(file) ? "npx model-gateway" : "npm start --";
}

/** Without symbolic links; the path itself, where nothing is. */
const realPathOf = (path: string): string => (existsSync(path) ? realpathSync(path) : path);

/** What stands before a verb on the command line, for hints that can be pasted. */
export const COMMAND = commandAt(import.meta.url);
