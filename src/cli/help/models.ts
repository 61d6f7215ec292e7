import { COMMAND } from "../verb.ts";

/** The line of the overall help. */
export const help = "models [--prices] [--json]   show models, their sizes and prices, and the sources of these";

/** What `--help` behind the verb prints. */
export const USAGE = `usage: ${COMMAND} models [--prices] [--json]

Shows each model of gateway.yaml and its targets: the maximum of input and output tokens, with their sources. Figures that
gateway.yaml does not have come from public tables that are part of this program; nothing is fetched.

  --prices        shows the current prices of each target, in USD per million tokens, with the source of each figure
  --json          prints JSON, with all figures`;
