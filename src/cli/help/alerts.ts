import { COMMAND } from "../verb.ts";

/** The line of the overall help. */
export const help = "alerts test [--json]         post one to the webhook of gateway.yaml";

/** What `--help` behind the verb prints. */
export const USAGE = `usage: ${COMMAND} alerts test [--json]

Posts a test to the address that alerts: { webhook: … } in gateway.yaml names, once, and says what came of it. No gateway has to run.

  --json   prints JSON

Exit codes: 0 it was taken, 1 it was not, 2 not understood.`;
