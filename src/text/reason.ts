import { relative } from "node:path";
import { ConfigError, type Problem } from "../config/problems.ts";
import { FileError, StoreAway } from "../core/errors.ts";
import { PluginError, type PluginProblem } from "../loader/problems.ts";

/** What the command line says is wrong with it: told with the line of the verb's usage, exit code 2. */
export class Misuse extends Error {}

/** What `reason` has said of it already, in another process: the message is all of it. */
export class KnownReason extends Error {
  override readonly name = "KnownReason";
}

/** Why the program cannot go on, in a line or a list of lines; a stack only for what nobody foresaw. */
export function reason(thrown: unknown): string {
  const error = thrown as NodeJS.ErrnoException & { address?: string; port?: number };
  if (error.code === "EADDRINUSE")
    return `${error.address}:${error.port} is taken: stop what listens there, or change it in gateway.yaml, where listen: or admin: says it`;
  if (error.code === "EACCES" && error.syscall === "listen")
    return `not allowed to listen on ${error.address}:${error.port}`;
  const foreseen = [ConfigError, PluginError, FileError, StoreAway, KnownReason].some((kind) => thrown instanceof kind);
  return foreseen ? error.message : (error.stack ?? String(thrown));
}

/** What is wrong with gateway.yaml or its plugins, each with its place; undefined: it is something else. */
export function problemsOf(thrown: unknown): readonly Problem[] | undefined {
  if (thrown instanceof ConfigError) return thrown.problems;
  return thrown instanceof PluginError ? thrown.problems.map(problemOf) : undefined;
}

/** What is wrong with a plugin, like what is wrong with the file. */
export function problemOf({ file, line = 1, column = 1, message, frame = "" }: PluginProblem): Problem {
  const short = relative(process.cwd(), file);
  return { file: short.startsWith("..") ? file : short, line, column, message, frame, severity: "error" };
}

/** Says why the program cannot go on. @param json what is wrong with gateway.yaml, as `check --json` says it */
export function sayReason(
  thrown: unknown,
  io: { out(line: string): void; err(line: string): void },
  json: boolean,
): void {
  const problems = json ? problemsOf(thrown) : undefined;
  if (problems) io.out(JSON.stringify({ ok: false, problems }));
  else io.err(reason(thrown));
  if (problems && thrown instanceof ConfigError && thrown.therefore !== undefined) io.err(thrown.therefore);
}
