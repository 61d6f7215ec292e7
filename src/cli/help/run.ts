import { COMMAND } from "../verb.ts";

/** The lines of the overall help. */
export const help =
  "run [--config FILE] [--watch]\n                               start the gateway (the default); --watch: reload when its files change";

/** What `--help` behind the verb prints. */
export const USAGE = `usage: ${COMMAND} run [--config FILE] [--watch] [--json]

Starts the gateway, prints what a newcomer needs, and serves until SIGTERM or SIGINT: then what runs is ended in peace, for as
long as drain: in gateway.yaml says. SIGHUP reads gateway.yaml, secrets and plugins anew; a file with mistakes changes nothing.

  --watch   does that by itself when one of these files changes
  --json    prints where it listens, what it serves and a key made for the first run as one line of JSON instead

Exit codes: 0 stopped, 1 could not start, failed while it ran or lost rows of the ledger as it stopped, 2 not understood.`;
