/**
 * The two heads that cross the border to a provider: what leaves, and what comes back. Fields that concern one connection
 * only (RFC 9110 §7.6.1) pass in neither direction, nor does what a Connection field names.
 */

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

const NEVER_BACK: ReadonlySet<string> = new Set(HOP_BY_HOP);

/** Besides those of one hop: what this side decides alone. */
const NEVER_OUT: ReadonlySet<string> = new Set([...HOP_BY_HOP, "accept-encoding", "content-length", "expect", "host"]);

const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;

/**
 * The header lines of a request as they go out. `accept-encoding: identity` is always asked for: answers are read on
 * their way (usage, frames), and unpacking them would cost more than the bytes saved between two data centres.
 *
 * @param lines name, value, name, value, …
 * @param length content-length of a body that goes out in pieces; undefined: none, or chunked.
 */
export function outgoingHeaders(lines: readonly string[], length: number | undefined): string[] {
  const out: string[] = [];
  let named: Set<string> | undefined;
  for (let i = 0; i < lines.length; i += 2) {
    const name = lines[i] as string;
    const key = name.toLowerCase();
    if (!NEVER_OUT.has(key)) out.push(name, lines[i + 1] as string);
    else if (key === "connection") named = addTokens(named, lines[i + 1] as string);
  }
  const kept = named ? without(out, named) : out;
  kept.push("accept-encoding", "identity");
  if (length !== undefined) kept.push("content-length", String(length));
  return kept;
}

/** The first header that may not be written to a socket (its name is no token, its value holds CR, LF, NUL or non-latin1). */
export function faultyHeader(lines: readonly string[]): string | undefined {
  for (let i = 0; i < lines.length; i += 2) {
    const name = lines[i] as string;
    if (!TOKEN.test(name) || !VALUE.test(lines[i + 1] as string)) return name;
  }
  return undefined;
}

export interface AnswerHead {
  /** Flat name, value list in the order and spelling that came. */
  headers: string[];
  /** The codings the body is wrapped in, as sent; undefined: plain. */
  encoding: string | undefined;
}

/** The head of an answer: latin1 strings without hop-by-hop fields; content-length stays. */
export function answerHead(raw: readonly Buffer[]): AnswerHead {
  const headers: string[] = [];
  let named: Set<string> | undefined;
  let encoding: string | undefined;
  for (let i = 0; i < raw.length; i += 2) {
    const name = (raw[i] as Buffer).toString("latin1");
    const value = (raw[i + 1] as Buffer).toString("latin1");
    const key = name.toLowerCase();
    if (!NEVER_BACK.has(key)) {
      headers.push(name, value);
      if (key === "content-encoding") encoding = encoding === undefined ? value : `${encoding}, ${value}`;
    } else if (key === "connection") named = addTokens(named, value);
  }
  return { headers: named ? without(headers, named) : headers, encoding };
}

/** A copy of the lines without those whose lower-case name is in the set. */
export function without(lines: readonly string[], names: ReadonlySet<string>): string[] {
  const kept: string[] = [];
  for (let i = 0; i < lines.length; i += 2) {
    const name = lines[i] as string;
    if (!names.has(name.toLowerCase())) kept.push(name, lines[i + 1] as string);
  }
  return kept;
}

/** Adds the fields a Connection value names; the two words that every peer sends name none. */
function addTokens(named: Set<string> | undefined, value: string): Set<string> | undefined {
  if (value === "keep-alive" || value === "close") return named;
  const all = named ?? new Set<string>();
  for (const token of value.split(",")) all.add(token.trim().toLowerCase());
  return all;
}
