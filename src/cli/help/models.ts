import { COMMAND } from "../verb.ts";

/** The line of the overall help. */
export const help = "models [--prices] [--json]   show models, what they take and cost, and who says so";

/** What `--help` behind the verb prints. */
export const USAGE = `usage: ${COMMAND} models [--prices] [--json]

Shows each model of gateway.yaml and its targets: tokens that fit in and come out, and who says so. What gateway.yaml does
not tell is read from public tables that came along with this program; nothing is fetched.

  --prices        what each target costs now, in USD per million tokens, and who says so of each figure
  --json          prints JSON, with all of it`;
