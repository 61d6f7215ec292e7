import { relative } from "node:path";
import { ConfigError, type Problem } from "../config/problems.ts";
import { FileError, StoreUnavailableError } from "../core/errors.ts";
import { PluginError, type PluginProblem } from "../loader/problems.ts";

/** A wrong command line: reported with the verb's usage line, exit code 2. */
export class UsageError extends Error {}

/** An error that another process has already formatted with `formatError`: the message is complete. */
export class FormattedError extends Error {
  override readonly name = "FormattedError";
}

/** Formats why the program cannot continue, in one or more lines; with a stack only for unexpected errors. */
export function formatError(thrown: unknown): string {
  const error = thrown as NodeJS.ErrnoException & { address?: string; port?: number };
  if (error.code === "EADDRINUSE")
    return `${error.address}:${error.port} is taken: stop what listens there, or change it in gateway.yaml, where listen: or admin: says it`;
  if (error.code === "EACCES" && error.syscall === "listen")
    return `not allowed to listen on ${error.address}:${error.port}`;
  const foreseen = [ConfigError, PluginError, FileError, StoreUnavailableError, FormattedError].some(
    (kind) => thrown instanceof kind,
  );
  return foreseen ? error.message : (error.stack ?? String(thrown));
}

/** Returns the problems of gateway.yaml or its plugins, each with its position; undefined: the error is of another kind. */
export function errorProblems(thrown: unknown): readonly Problem[] | undefined {
  if (thrown instanceof ConfigError) return thrown.problems;
  return thrown instanceof PluginError ? thrown.problems.map(toProblem) : undefined;
}

/** Converts a plugin's problem to the form of a configuration problem. */
export function toProblem({ file, line = 1, column = 1, message, frame = "" }: PluginProblem): Problem {
  const short = relative(process.cwd(), file);
  return { file: short.startsWith("..") ? file : short, line, column, message, frame, severity: "error" };
}

/** Prints why the program cannot continue. @param json whether problems of gateway.yaml are printed as by `check --json` */
export function printError(
  thrown: unknown,
  io: { out(line: string): void; err(line: string): void },
  json: boolean,
): void {
  const problems = json ? errorProblems(thrown) : undefined;
  if (problems) io.out(JSON.stringify({ ok: false, problems }));
  else io.err(formatError(thrown));
  if (problems && thrown instanceof ConfigError && thrown.consequence !== undefined) io.err(thrown.consequence);
}
