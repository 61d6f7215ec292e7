import { COMMAND } from "../verb.ts";

/** The line of the overall help. */
export const help = "routes [--json]              show the chain and the protocol of each path";

/** What `--help` behind the verb prints. */
export const USAGE = `usage: ${COMMAND} routes [--json]

Shows every path that is served: what responds there, and the plugins that its requests pass, in order. Answers pass them in
reverse order.

  --json   prints [{ path, answers, protocol, chain, plugins, strict }]`;
