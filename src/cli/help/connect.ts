import { COMMAND } from "../verb.ts";

/** The lines of the overall help. */
export const help = `connect [CLIENT] [--key …] [--model …] [-- …]
                               print what a client must be told, or start it with that`;

/** What `--help` behind the verb prints. */
export const USAGE = `usage: ${COMMAND} connect [--json]
       ${COMMAND} connect CLIENT [--url URL] [--key KEY] [--model MODEL] [--json]
       ${COMMAND} connect CLIENT [--url URL] [--key KEY] [--model MODEL] -- [ARGUMENTS …]

Without a client: which there are, and which of them are on this machine. With one: the settings that it needs, to copy. With
-- behind it: starts it with these settings and the arguments that follow. No file of yours is touched; what the client must
read from a file is written to a temporary one, and removed with its end. The exit code is then the client's.

  --url URL       the gateway's address, as the client reaches it; absent: where gateway.yaml listens
  --key KEY       a gateway key; absent: the variable GATEWAY_KEY
  --model MODEL   a model of the gateway; absent: the first one of gateway.yaml whose provider is on
  --json          prints JSON`;
