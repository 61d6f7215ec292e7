import { COMMAND } from "../verb.ts";

/** The line of the overall help. */
export const help = `doctor [--url URL] [--json]   test providers, stores, sign-in, DNS, the clock, and the proxy in front`;

/** What `--help` behind the verb prints. */
export const USAGE = `usage: ${COMMAND} doctor [--url URL --key KEY [--model MODEL]] [--json]

Requests the list of models from each provider of gateway.yaml with each of its credentials, which costs nothing, and shows whether
the credential is accepted, and how long it takes. Also tests whether DNS resolves their hosts, whether this machine's clock agrees
with theirs, whether PostgreSQL, Redis and the identity provider (admin: oidc) can be used, if they are configured, and whether the
secret beside the ledger's file can be used.

  --url URL       the gateway as clients reach it, through nginx or another proxy: tests whether the proxy forwards a stream at
                  once, or buffers it and sends it in one piece. The result is unknown, and the exit code 1, if the stream
                  was too short to tell, or there is no model for it
  --key KEY       a gateway key for that test; absent: the variable GATEWAY_KEY
  --model MODEL   a model that streams for at least a second; absent: one with the built-in provider's model "slow" (target
                  demo:slow), which costs nothing
  --json          prints JSON

Exit codes: 0 all tests passed, 1 one failed or has no result, 2 not understood.`;
