import { COMMAND } from "../verb.ts";

/** The lines of the overall help. */
export const help = `connect [CLIENT] [--key …] [--model …] [-- …]
                               print a client's settings, or start it with them`;

/** What `--help` behind the verb prints. */
export const USAGE = `usage: ${COMMAND} connect [--json]
       ${COMMAND} connect CLIENT [--url URL] [--key KEY] [--model MODEL] [--json]
       ${COMMAND} connect CLIENT [--url URL] [--key KEY] [--model MODEL] -- [ARGUMENTS …]

Without a client: lists the known clients, and which of them are installed here. With a client: prints its settings, to copy. With
-- after it: starts the client with these settings and the arguments that follow. None of your files is changed; settings that the
client reads from a file are written to a temporary one, which is removed when it exits. The exit code is then the client's.

  --url URL       the gateway's URL, as the client reaches it; absent: the address in gateway.yaml
  --key KEY       a gateway key; absent: the variable GATEWAY_KEY
  --model MODEL   a model of the gateway; absent: the first one of gateway.yaml whose provider is enabled
  --json          prints JSON`;
