import { relative } from "node:path";

/** An error or warning with its position in the file. */
export interface Problem {
  file: string;
  /** From 1. */
  line: number;
  /** From 1, in UTF-16 units. */
  column: number;
  message: string;
  /** The lines around it with a caret below; values of secrets are masked. */
  frame: string;
  severity: "error" | "warning";
}

/** The path of a value: names of maps and indexes of lists, from the top. */
export type ConfigPath = readonly (string | number)[];

/** An error or warning in the parsed values, not yet located in the text. */
export interface Finding {
  path: ConfigPath;
  message: string;
  /** Points to the name instead of its value. */
  key?: boolean;
  /** Points to a part of the text there, by offset and length. */
  part?: { from: number; length: number };
  severity?: Problem["severity"];
}

/**
 * Returns the message for a provider or key that is not used.
 * @param why like `NAME is not set`
 */
export const offNotice = (kind: "provider" | "key", name: string, why: string): string =>
  `${kind} ${JSON.stringify(name)} is off: ${why}`;

/** Receives findings. */
export type Report = (finding: Finding) => void;

/** gateway.yaml cannot be used; the message lists all errors in it. */
export class ConfigError extends Error {
  override readonly name = "ConfigError";

  /** @param consequence the consequence, added at the end */
  constructor(
    readonly problems: readonly Problem[],
    readonly consequence?: string,
  ) {
    super([...problems.map(formatProblem), ...(consequence === undefined ? [] : [consequence])].join("\n\n"));
  }
}

/** Returns a file's path relative to a folder if the file is below it: short, and terminals make it a link. */
export function displayPath(file: string, folder = process.cwd()): string {
  const short = relative(folder, file);
  return short.startsWith("..") ? file : short;
}

/** Formats a problem for people: `file:line:column error: …`, then the frame. */
export function formatProblem({ file, line, column, severity, message, frame }: Problem): string {
  const head = `${file}:${line}:${column} ${severity}: ${message}`;
  return frame === "" ? head : `${head}\n${frame}`;
}

/** Sorts problems by position, without duplicates: an error behind an anchor is found wherever that is used. */
export function sortProblems(problems: readonly Problem[]): Problem[] {
  const each = new Map(problems.map((problem) => [`${problem.line}:${problem.column}:${problem.message}`, problem]));
  return [...each.values()].sort((a, b) => a.line - b.line || a.column - b.column);
}
