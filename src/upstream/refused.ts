import type { Attempt } from "../core/exchange.ts";
import type { Refused } from "../core/protocol.ts";
import { peeked } from "./peeked.ts";
import type { UpstreamResponse } from "./response.ts";

/** Bytes and milliseconds of an error that are waited for; what vendors say of a credential is a few hundred, and comes at once. */
const LARGEST = 16 * 1024;
const LONGEST = 1000;

/** What each comes to: the status with which most vendors say it. */
const STATUSES: Readonly<Record<Refused, number>> = { credential: 401, target: 403, request: 400, object: 400 };

/**
 * The status that a provider's error comes to, which is another one than its own where its body says that something else is
 * refused. All of it stays to be read.
 */
export async function statusMeant(response: UpstreamResponse, attempt: Attempt): Promise<number> {
  const { status } = response;
  const { credential, target } = attempt;
  const refused = await refusedIn(response, attempt);
  if (!refused || (!credential && STATUSES[refused] !== 400)) return status;
  // What one account does not have another one may.
  if (refused === "object" && target.provider.credentials.length > 1) return status;
  return STATUSES[refused];
}

/** What a provider's error says is refused; undefined: it says no more than its status. */
function refusedIn(response: UpstreamResponse, { protocol }: Attempt): undefined | Promise<Refused | undefined> {
  const { status } = response;
  if (!protocol.refuses || status < 400 || status >= 500) return undefined;
  return peeked<Refused>(response, LONGEST, (settle, pieces, last, whole) => {
    if (pieces.reduce((sum, { length }) => sum + length, 0) > LARGEST) return settle();
    return last && settle(whole ? protocol.refuses?.(status, Buffer.concat(pieces)) : undefined);
  });
}
