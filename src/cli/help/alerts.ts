import { COMMAND } from "../verb.ts";

/** The line of the overall help. */
export const help = "alerts test [--json]         send a test alert to the webhook of gateway.yaml";

/** What `--help` behind the verb prints. */
export const USAGE = `usage: ${COMMAND} alerts test [--json]

Posts a test alert once to the URL of alerts: { webhook: … } in gateway.yaml, and shows the response. No gateway has to run.

  --json   prints JSON

Exit codes: 0 accepted, 1 not accepted, 2 not understood.`;
