import type { MaybePromise } from "../core/plugin.ts";
import type { Protocol } from "../core/protocol.ts";
import type { HeaderList } from "../wire/headers.ts";
import { parseRetryAfter } from "../wire/retry-after.ts";
import { peekErrorBody } from "./peek-response.ts";
import type { UpstreamResponse } from "./response.ts";

/**
 * Returns the seconds that a provider wants us to wait before a retry: as the response's headers say, or else, where its protocol
 * has a place for that, the body of an error. Consumes nothing.
 */
export function requestedWait(
  response: UpstreamResponse,
  headers: HeaderList,
  { retryAfter }: Protocol,
): MaybePromise<number | undefined> {
  const seconds = parseRetryAfter(headers);
  if (seconds !== undefined || !retryAfter || response.status < 400) return seconds;
  return peekErrorBody(response, retryAfter);
}
