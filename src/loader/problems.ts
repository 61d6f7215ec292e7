/** A problem of one plugin. */
export interface PluginProblem {
  /** An absolute path, or the plugin's name where there is no file. */
  file: string;
  /** From 1, where it is known. */
  line?: number;
  column?: number;
  message: string;
  /** The surrounding lines, where the problem is in gateway.yaml. */
  frame?: string;
}

/** Plugins that cannot run, each with file and reason. */
export class PluginError extends Error {
  override readonly name = "PluginError";

  constructor(
    readonly problems: readonly PluginProblem[],
    cause?: unknown,
  ) {
    super(
      problems.map(formatPluginProblem).join(problems.some(({ frame }) => frame) ? "\n\n" : "\n"),
      cause === undefined ? undefined : { cause },
    );
  }
}

/** Returns an error with a single problem of a file. */
export function pluginError(file: string, message: string, cause?: unknown): PluginError {
  return new PluginError([{ file, message }], cause);
}

const formatPluginProblem = ({ file, line, column, message, frame }: PluginProblem): string =>
  (line === undefined ? `${file}: ${message}` : `${file}:${line}:${column ?? 1} error: ${message}`) +
  (frame ? `\n${frame}` : "");
