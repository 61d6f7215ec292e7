import type { Attempt } from "../core/attempt.ts";
import type { MaybePromise } from "../core/plugin.ts";
import type { RefusalScope } from "../core/protocol.ts";
import { peekErrorBody } from "./peek-response.ts";
import type { UpstreamResponse } from "./response.ts";

/** The status that most vendors use for each case. */
const STATUSES: Readonly<Record<RefusalScope, number>> = {
  credential: 401,
  target: 403,
  request: 400,
  object: 400,
  state: 400,
  summary: 400,
};

/**
 * Returns the status that a provider's error amounts to, which differs from its own where the body says that something else is
 * refused; it also records in the attempt that state or a summary is refused. Consumes nothing.
 */
export async function effectiveStatus(response: UpstreamResponse, attempt: Attempt): Promise<number> {
  const { status } = response;
  const { credential, target } = attempt;
  const refused = await refusedPart(response, attempt);
  attempt.refusedState = refused === "state";
  attempt.refusedSummary = refused === "summary";
  if (!refused || (!credential && refused === "credential")) return status;
  // An object that one account does not have, another account of the provider may have.
  if (refused === "object" && target.provider.credentials.length > 1) return status;
  return STATUSES[refused];
}

/** Returns what the body of a provider's error says is refused; undefined: no more than its status says. */
function refusedPart(response: UpstreamResponse, { protocol }: Attempt): MaybePromise<RefusalScope | undefined> {
  const { status } = response;
  if (!protocol.refuses || status < 400 || status >= 500) return undefined;
  return peekErrorBody(response, (body) => protocol.refuses?.(status, body));
}
