import { ConfigError, displayPath, type Problem } from "../config/problems.ts";
import { FileError, StoreUnavailableError, thrownText } from "../core/errors.ts";
import { PluginError, type PluginProblem } from "../loader/problems.ts";

/** A wrong command line: reported with the verb's usage line, exit code 2. */
export class UsageError extends Error {}

/** An error that another process has already formatted with `formatError`: the message is complete. */
export class FormattedError extends Error {
  override readonly name = "FormattedError";
}

type SystemError = NodeJS.ErrnoException & { address?: string; port?: number; hostname?: string };

/** Why nothing can listen on an address, and what to do. */
const LISTEN_REASONS: Readonly<Record<string, string>> = {
  EADDRINUSE: "is taken: stop what listens there, or change it",
  EADDRNOTAVAIL: "is no address of this machine: change it",
  // For a Unix socket also where its folder does not exist.
  EACCES:
    "is not open to this user: low ports need root, a Unix socket needs a folder that the user may write; or change it",
};

/** Returns the address of an error of the system, or the path of a Unix socket, where the port is -1. */
const listenAddressOf = ({ address = "", port = -1 }: SystemError): string =>
  port < 0 ? address : `${address}:${port}`;

/** Formats why the program cannot continue, in one or more lines; with a stack only for unexpected errors. */
export function formatError(thrown: unknown): string {
  const error = thrown as SystemError;
  const reason = error.syscall === "listen" ? LISTEN_REASONS[error.code ?? ""] : undefined;
  if (reason !== undefined)
    return `${listenAddressOf(error)} ${reason} in gateway.yaml, where listen: or admin: says it`;
  if (error.syscall === "getaddrinfo")
    return `${error.hostname} cannot be resolved (${error.code}): no host of that name is known`;
  const foreseen = [ConfigError, PluginError, FileError, StoreUnavailableError, FormattedError].some(
    (kind) => thrown instanceof kind,
  );
  return foreseen ? error.message : (error.stack ?? thrownText(thrown));
}

/** Returns the problems of gateway.yaml or its plugins, each with its position; undefined: the error is of another kind. */
export function errorProblems(thrown: unknown): readonly Problem[] | undefined {
  if (thrown instanceof ConfigError) return thrown.problems;
  return thrown instanceof PluginError ? thrown.problems.map(toProblem) : undefined;
}

/** Converts a plugin's problem to the form of a configuration problem. */
export function toProblem({ file, line = 1, column = 1, message, frame = "" }: PluginProblem): Problem {
  return { file: displayPath(file), line, column, message, frame, severity: "error" };
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
