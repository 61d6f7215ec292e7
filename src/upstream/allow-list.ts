import { flatText } from "../wire/flat-text.ts";
import { matchesName } from "../wire/header-names.ts";
import { CHALLENGE, type HeaderList } from "../wire/headers.ts";

/** Request headers of every protocol that are forwarded upstream. */
export const REQUEST_HEADERS = ["content-type", "accept", "accept-language", "user-agent"];
/** Trace headers that may be forwarded: random ids only. `tracestate` may hold what tracing systems record about people. */
export const TRACE_HEADERS = ["traceparent"];
/** Response headers of every protocol that are returned to clients; a protocol may name more. */
export const RESPONSE_HEADERS = [
  "content-type",
  "content-length",
  "content-disposition",
  "content-language",
  "retry-after",
  "retry-after-ms",
  "x-should-retry",
];

/** Headers in which providers send their own id of a request. */
const REQUEST_IDS = ["x-request-id", "request-id"] as const;
/** Statuses of a response that a retry does not change. */
const FINAL_STATUSES = new Set([401, 402, 403, 404]);
/** Limit of cached names, as a client can make up any number. */
const CACHE_LIMIT = 500;

/** Header names that may pass. Results are cached, because a few names make up nearly all that occur. */
export class AllowList {
  private readonly cache = new Map<string, boolean>();

  /** @param names lower-case names, or prefixes that end in `*`. */
  constructor(private readonly names: readonly string[]) {}

  readonly allows = (name: string): boolean => {
    const cached = this.cache.get(name);
    if (cached !== undefined) return cached;
    const isAllowed = matchesName(name, this.names);
    if (this.cache.size < CACHE_LIMIT) this.cache.set(name, isAllowed);
    return isAllowed;
  };
}

/** Characters of a request id that are kept; those of vendors have up to 40. */
const MAX_ID_LENGTH = 128;

/** Returns the provider's own id of a request from its response's headers, cut to {@link MAX_ID_LENGTH}. */
export function requestIdOf(headers: HeaderList): string | undefined {
  const id = headers.get(REQUEST_IDS[0]) ?? headers.get(REQUEST_IDS[1]);
  return id === undefined ? undefined : flatText(id.slice(0, MAX_ID_LENGTH));
}

/** Adds what clients need beside the status: whether a retry is worth it, and the challenge of a 401. What the provider says counts. */
export function completeHeaders(status: number, headers: HeaderList): void {
  if (FINAL_STATUSES.has(status) && !headers.has("x-should-retry")) headers.append("x-should-retry", "false");
  if (status === 401 && !headers.has(CHALLENGE[0])) headers.append(...CHALLENGE);
}
