import { COMMAND } from "../verb.ts";

/** The line of the overall help. */
export const help = "check [FILE] [--json]        find all mistakes in gateway.yaml";

/** What `--help` behind the verb prints. */
export const USAGE = `usage: ${COMMAND} check [FILE] [--json]

Lists all mistakes in gateway.yaml, each with line, column and fix. Then builds its plugins and tries their start, without serving
or opening anything, and tests the connection to PostgreSQL and Redis, if they hold the store.
Two running gateways that share the file's store, but each count limits in their own memory, are an error.

  FILE     the gateway.yaml, as --config FILE of every verb
  --json   prints { ok, problems: [{ file, line, column, severity, message, frame }] }

Exit codes: 0 no mistakes, perhaps warnings; 1 mistakes; 2 no such file.`;
