import type { HeaderList } from "../wire/headers.ts";

/** Request headers of every protocol that go upstream. */
export const REQUEST_HEADERS = ["content-type", "accept", "accept-language", "user-agent"];
/** What of a caller's trace goes upstream: random ids. `tracestate` may hold what its systems say of people. */
export const TRACE_HEADERS = ["traceparent"];
/** Response headers of every protocol that come back down; a protocol may name more. */
export const RESPONSE_HEADERS = [
  "content-type",
  "content-length",
  "content-disposition",
  "content-language",
  "retry-after",
  "retry-after-ms",
  "x-should-retry",
];

/** Where providers tell their own id of a request. */
const REQUEST_IDS = ["x-request-id", "request-id"] as const;
/** Statuses of an answer that will not change by asking again. */
const FINAL = new Set([401, 402, 403, 404]);
/** Names that are remembered; a client can make up any number. */
const REMEMBERED = 500;

/** Header names that may pass: a few names make up nearly all that come, so what was found for one is remembered. */
export class AllowList {
  private readonly known = new Map<string, boolean>();

  /** @param names lower-case names, or prefixes that end in `*`. */
  constructor(private readonly names: readonly string[]) {}

  readonly passes = (name: string): boolean => {
    const known = this.known.get(name);
    if (known !== undefined) return known;
    const passes = this.names.some((each) => (each.endsWith("*") ? name.startsWith(each.slice(0, -1)) : name === each));
    if (this.known.size < REMEMBERED) this.known.set(name, passes);
    return passes;
  };
}

/** Characters of such an id that are kept; those of vendors have up to 40. */
const LONGEST_ID = 128;

/** The provider's own id of a request, where the head of its response tells it; of a very long one its beginning. */
export const requestIdIn = (headers: HeaderList): string | undefined =>
  (headers.get(REQUEST_IDS[0]) ?? headers.get(REQUEST_IDS[1]))?.slice(0, LONGEST_ID);

/** Says of a response that asking again changes nothing, unless the provider has said itself whether it does. */
export function adviseRetry(status: number, headers: HeaderList): void {
  if (FINAL.has(status) && !headers.has("x-should-retry")) headers.append("x-should-retry", "false");
}
