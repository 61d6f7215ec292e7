import { COMMAND } from "../verb.ts";

/** The lines of the overall help. */
export const help = `explain [PATH] [--model …] [--key …] [--body …]
                               say what would become of a request, without asking a provider`;

/** What `--help` behind the verb prints. */
export const USAGE = `usage: ${COMMAND} explain [PATH] [--model MODEL] [--key KEY] [--body JSON|@FILE] [--header 'NAME: VALUE'] …

Sends a request through the very chain that would serve it, but for the provider: says which chain takes it, what each plugin
does, which targets would be asked in which order and why, what would be sent to each, what would be left out in its protocol,
and what it would cost at most. Nothing is written to the ledger, and no provider is asked.

  PATH               like /v1/messages, or GET:/v1/models; absent: /v1/chat/completions
  --model MODEL      the model asked for; absent: the body's, or the first one of gateway.yaml
  --key KEY          name or id of a key, or a key itself; absent: one that may do everything
  --body JSON|@FILE  the request's body; absent: a short one of the path's protocol
  --header 'N: V'    a header of the request; may be said more than once
  --address IP       where the request comes from; absent: 127.0.0.1
  --sent             shows the body that each provider would get, translated where it speaks another protocol
  --json             prints JSON, with these bodies

How targets do at the moment only the running gateway knows: callers ask it with the header gateway-explain: dry-run.
Exit codes: 0 a provider would be asked or a plugin answers, 1 it would be refused, 2 not understood.`;
