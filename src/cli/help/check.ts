import { COMMAND } from "../verb.ts";

/** The line of the overall help. */
export const help = "check [FILE] [--json]        say everything that is wrong with gateway.yaml";

/** What `--help` behind the verb prints. */
export const USAGE = `usage: ${COMMAND} check [FILE] [--json]

Says everything that is wrong with gateway.yaml, each with line, column and the fix, then builds its plugins and tries their
start, without serving or opening anything, and asks PostgreSQL and Redis, where they hold the store, whether they can be used.
Two gateways that use the file's store now, and count limits each in its own memory, are an error.

  --json   prints { ok, problems: [{ file, line, column, severity, message, frame }] }

Exit codes: 0 right, though there may be warnings; 1 problems; 2 no such file.`;
