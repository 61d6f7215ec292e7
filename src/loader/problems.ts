/** What is wrong with one plugin. */
export interface PluginProblem {
  /** Absolute, or the name where there is no file. */
  file: string;
  /** From 1, where it is known. */
  line?: number;
  column?: number;
  message: string;
  /** The lines around it, where it is of gateway.yaml. */
  frame?: string;
}

/** Plugins that cannot run, with file and reason each. */
export class PluginError extends Error {
  override readonly name = "PluginError";

  constructor(
    readonly problems: readonly PluginProblem[],
    cause?: unknown,
  ) {
    super(problems.map(shown).join("\n"), cause === undefined ? undefined : { cause });
  }
}

/** With one problem of a file. */
export function pluginError(file: string, message: string, cause?: unknown): PluginError {
  return new PluginError([{ file, message }], cause);
}

const shown = ({ file, line, column, message, frame }: PluginProblem): string =>
  (line === undefined ? `${file}: ${message}` : `${file}:${line}:${column ?? 1}: ${message}`) +
  (frame ? `\n${frame}` : "");
