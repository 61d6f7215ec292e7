import { cacheSlot } from "./cache-slot.ts";
import { internalize } from "./internalize.ts";
import { LineStart } from "./window.ts";

/** What is known about a header name: the same few occur in every message, and a lookup is cheaper than recomputing it. */
export interface HeaderName {
  /** The original spelling, and the name in lower case. */
  readonly spelling: string;
  readonly key: string;
  /** The spelling and the colon after it. */
  readonly lineStart: LineStart;
  /** What is written between the value of the line before and its own: a line's end, the spelling, a colon and a space. */
  readonly beforeValue: string;
  /** Whether it is a token (RFC 9110 §5.6.2): nothing else may be written to a socket. */
  readonly isToken: boolean;
  /** Whether it is a hop-by-hop header (RFC 9110 §7.6.1). */
  readonly isHopByHop: boolean;
  /** One of 30 bits, the same in any spelling. */
  readonly bit: number;
}

const HOP_BY_HOP = [
  "connection",
  "http2-settings",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
];

/** Matches a token (RFC 9110 §5.6.2): a name of a header, a method. */
export const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;

/** Number of cached names before the cache is cleared, and their maximum length; a peer can invent any number. */
const MAX_CACHED = 2000;
const MAX_CACHED_LENGTH = 64;

const names = new Map<string, HeaderName>();
const hops = new Set(HOP_BY_HOP);

/** The most recent names, each in its slot. */
const CACHE_SLOTS = 4096;
const recentNames: HeaderName[] = new Array(CACHE_SLOTS).fill({
  spelling: "",
  key: "",
  lineStart: new LineStart(":"),
  beforeValue: "",
  isToken: false,
  isHopByHop: false,
  bit: 0,
});

/** Returns what is known about a header name in any spelling. */
export function headerName(spelling: string): HeaderName {
  const slot = cacheSlot(spelling, CACHE_SLOTS);
  const cached = recentNames[slot] as HeaderName;
  if (cached.spelling === spelling) return cached;
  const name = names.get(spelling) ?? createName(spelling);
  if (spelling.length <= MAX_CACHED_LENGTH) recentNames[slot] = name;
  return name;
}

/**
 * Returns the same for a name that the code contains: V8 knows the hash of such a text, and finds it in a map at half the cost of
 * a slot.
 */
export const literalName = (spelling: string): HeaderName => names.get(spelling) ?? createName(spelling);

/**
 * Reports whether a field controls the connection and names hop-by-hop fields. Proxy-Connection never was a standard (RFC 9112
 * appendix C.2.2), but its senders mean it; node obeys it too.
 */
export const isConnectionHeader = (key: string): boolean => key === "connection" || key === "proxy-connection";

const bitOf = (key: string): number => 1 << (cacheSlot(key, CACHE_SLOTS) % 30);

function createName(text: string): HeaderName {
  const spelling = internalize(text);
  const lower = spelling.toLowerCase();
  const key = names.get(lower)?.key ?? internalize(lower);
  const name = {
    spelling,
    key,
    lineStart: new LineStart(`${spelling}:`),
    beforeValue: `\r\n${spelling}: `,
    isToken: TOKEN.test(spelling),
    isHopByHop: hops.has(key),
    bit: bitOf(key),
  };
  if (spelling.length > MAX_CACHED_LENGTH) return name;
  if (names.size >= MAX_CACHED) names.clear();
  names.set(spelling, name);
  return name;
}

/** Reports whether a name matches one of these patterns, in which `*` at the end stands for any text. */
export const matchesName = (name: string, patterns: readonly string[]): boolean =>
  patterns.some((pattern) => (pattern.endsWith("*") ? name.startsWith(pattern.slice(0, -1)) : name === pattern));
