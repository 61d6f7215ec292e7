import { COMMAND } from "../verb.ts";

/** The lines of the overall help. */
export const help =
  "run [FILE] [--watch]\n                               start the gateway (the default); --watch: reload when its files change";

/** What `--help` behind the verb prints. */
export const USAGE = `usage: ${COMMAND} run [FILE] [--watch] [--json]

Starts the gateway, prints how to use it, and serves until SIGTERM or SIGINT: then running requests may still end, for at most
the time of drain: in gateway.yaml. SIGHUP reloads gateway.yaml, secrets and plugins; a file with mistakes changes nothing.

  FILE      the gateway.yaml, as --config FILE of every verb

  --watch   reloads when one of these files changes
  --json    prints its addresses, its models and a key made at the first run as one line of JSON instead

Exit codes: 0 stopped, 1 could not start, failed while running, or lost rows of the ledger while stopping, 2 not understood.`;
