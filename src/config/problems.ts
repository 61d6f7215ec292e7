/** One thing that is wrong, or worth saying, with its place in the file. */
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

/** Where a value stands: names of maps and numbers of lists, from the top. */
export type ConfigPath = readonly (string | number)[];

/** Something found in the parsed values, not yet located in the text. */
export interface Finding {
  path: ConfigPath;
  message: string;
  /** Points at the name instead of its value. */
  key?: boolean;
  /** Points at a part of the text there, by offset and length. */
  part?: { from: number; length: number };
  severity?: Problem["severity"];
}

/** What is said of a provider or key that is not used. @param why like `NAME is not set` */
export const offNotice = (kind: "provider" | "key", name: string, why: string): string =>
  `${kind} ${JSON.stringify(name)} is off: ${why}`;

export type Report = (finding: Finding) => void;

/** gateway.yaml cannot be used; the message tells everything that is wrong with it. */
export class ConfigError extends Error {
  override readonly name = "ConfigError";

  /** @param therefore what follows from it, said behind it */
  constructor(
    readonly problems: readonly Problem[],
    readonly therefore?: string,
  ) {
    super([...problems.map(format), ...(therefore === undefined ? [] : [therefore])].join("\n\n"));
  }
}

/** A problem as people read it: `file:line:column error: …`, then the frame. */
export function format({ file, line, column, severity, message, frame }: Problem): string {
  const head = `${file}:${line}:${column} ${severity}: ${message}`;
  return frame === "" ? head : `${head}\n${frame}`;
}

/** In the order of the file, each once: a mistake behind an anchor is found wherever it is used. */
export function inOrder(problems: readonly Problem[]): Problem[] {
  const each = new Map(problems.map((problem) => [`${problem.line}:${problem.column}:${problem.message}`, problem]));
  return [...each.values()].sort((a, b) => a.line - b.line || a.column - b.column);
}
