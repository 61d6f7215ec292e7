import { ConfigError } from "../config/problems.ts";
import { FileError } from "../core/errors.ts";
import { PluginError } from "../loader/problems.ts";

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
  const foreseen = [ConfigError, PluginError, FileError, KnownReason].some((kind) => thrown instanceof kind);
  return foreseen ? error.message : (error.stack ?? String(thrown));
}
