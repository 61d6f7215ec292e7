import { COMMAND } from "../verb.ts";

/** The lines of the overall help. */
export const help = `explain [PATH] [--model …] [--key …] [--body …]
                               show how a request would be processed, without sending it to a provider`;

/** What `--help` behind the verb prints. */
export const USAGE = `usage: ${COMMAND} explain [PATH] [--model MODEL] [--key KEY] [--body JSON|@FILE] [--header 'NAME: VALUE'] …

Runs a request through the chain that would serve it, without its provider: shows the chain, what each plugin does, which targets
would be tried, in which order and why, what would be sent to each, what would be left out in its protocol, and the maximum
cost. Nothing is written to the ledger, and nothing is sent to a provider.

  PATH               like /v1/messages, or GET:/v1/models; absent: /v1/chat/completions
  --model MODEL      the requested model; absent: the body's, or the first one of gateway.yaml
  --key KEY          name or id of a key, or the key itself; absent: the one in the headers, or a key without restrictions
  --body JSON|@FILE  the request's body; absent: a short one of the path's protocol
  --header 'N: V'    a header of the request; may be given several times
  --address IP       the client's address; absent: 127.0.0.1
  --sent             shows the body that each provider would get, translated if it speaks another protocol
  --json             prints JSON, with these bodies

Only the running gateway knows the current health of targets: callers get it with the header gateway-explain: dry-run.
Exit codes: 0 a provider or a plugin would respond, 1 the request would be refused, 2 not understood.`;
