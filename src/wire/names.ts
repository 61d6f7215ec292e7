import { placeOf } from "./place.ts";

/** What is known of a header's name: the same few come in every message, and a look is cheaper than working it out. */
export interface KnownName {
  /** As it was written, and in lower case. */
  readonly spelling: string;
  readonly key: string;
  /** Whether it is a token (RFC 9110 §5.6.2): nothing else may be written to a socket. */
  readonly valid: boolean;
  /** Concerns one connection only (RFC 9110 §7.6.1). */
  readonly hop: boolean;
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

const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;

/** Names that are remembered before memory starts anew, and their length; a peer can make up any number. */
const REMEMBERED = 2000;
const LONGEST = 64;

const names = new Map<string, KnownName>();
const hops = new Set(HOP_BY_HOP);

/** The names met last, each in its place. */
const PLACES = 1024;
const guesses: KnownName[] = new Array(PLACES).fill({ spelling: "", key: "", valid: false, hop: false });

/** A header's name in any spelling. */
export function known(spelling: string): KnownName {
  const place = placeOf(spelling, PLACES);
  const guess = guesses[place] as KnownName;
  if (guess.spelling === spelling) return guess;
  const name = names.get(spelling) ?? learn(spelling);
  if (spelling.length <= LONGEST) guesses[place] = name;
  return name;
}

/**
 * Whether a field says what becomes of the connection, and names fields that concern it alone. Proxy-Connection never was a
 * standard (RFC 9112 appendix C.2.2), but who sends it means it; so node obeys it too.
 */
export const isConnection = (key: string): boolean => key === "connection" || key === "proxy-connection";

function learn(text: string): KnownName {
  const spelling = unique(text);
  const lower = spelling.toLowerCase();
  const key = names.get(lower)?.key ?? unique(lower);
  const name = { spelling, key, valid: TOKEN.test(spelling), hop: hops.has(key) };
  if (spelling.length > LONGEST) return name;
  if (names.size >= REMEMBERED) names.clear();
  names.set(spelling, name);
  return name;
}

/**
 * The same text as the engine keeps it for names of members: comparing two such is comparing two references, and it is a
 * copy, where a part of a larger text would keep all of that in memory.
 */
const unique = (text: string): string => Object.keys({ [text]: true })[0] as string;
