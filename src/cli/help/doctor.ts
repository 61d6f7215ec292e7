import { COMMAND } from "../verb.ts";

/** The line of the overall help. */
export const help = `doctor [--url URL] [--json]   test each provider, stores, sign-in, DNS, the clock, and what stands in front`;

/** What `--help` behind the verb prints. */
export const USAGE = `usage: ${COMMAND} doctor [--url URL --key KEY [--model MODEL]] [--json]

Asks each provider of gateway.yaml for its list of models with each of its credentials, which costs nothing: does it take the
credential, how long does it take? Besides: does DNS know their hosts, does this machine's clock agree with theirs, can
PostgreSQL, Redis and the identity provider (admin: oidc) be used where they are set, and is the secret beside the ledger's file
still there?

  --url URL       the gateway as clients reach it, through nginx or the like: does a stream come through it is made, or is
                  it held back and sent in one piece?
  --key KEY       a gateway key for that; absent: the variable GATEWAY_KEY
  --model MODEL   a model that streams for a second or longer; absent: one of the built-in provider's model "slow"
  --json          prints JSON

Exit codes: 0 all is well, 1 something is not, 2 not understood.`;
