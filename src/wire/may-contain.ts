import { COLON, OPEN_OBJECT, QUOTE, SPACES } from "./grammar.ts";

/** The bytes to search for, and the shift for each byte below its last position (Horspool). */
interface Needle {
  readonly needle: Buffer;
  readonly skip: Uint8Array;
}

const memberSearches = new Map<string | readonly string[], MemberSearch>();
const wordNeedles = new Map<string, Needle>();
/** The bit in which a lower-case ASCII letter differs from its capital. */
const CASE_BIT = 0x20;
/** Bytes from which on a call of the native search costs less than it saves. */
const NATIVE_SEARCH_LENGTH = 2048;

/**
 * Reports whether bytes contain a word. For the size of an event this is faster than `includes`, which is mostly call overhead.
 */
export function containsWord(bytes: Buffer, word: string): boolean {
  const { needle, skip } = wordNeedles.get(word) ?? compileNeedle(word);
  if (bytes.length > NATIVE_SEARCH_LENGTH) return bytes.includes(needle);
  const last = needle.length - 1;
  for (let end = last; end < bytes.length; end += skip[bytes[end] as number] as number) {
    let i = last;
    while (i >= 0 && bytes[end - last + i] === needle[i]) i--;
    if (i < 0) return true;
  }
  return false;
}

/** What errors of every protocol contain, and how it is usually spelled, for the native search. */
const ERROR = newNeedle("error");
const ERROR_SPELLINGS = ["error", "Error", "ERROR"].map((spelling) => Buffer.from(spelling));
for (const byte of ERROR.needle) ERROR.skip[byte & ~CASE_BIT] = ERROR.skip[byte] as number;

/** Reports whether bytes contain the word "error" in any case; in many bytes only in a usual one. */
export function containsError(bytes: Buffer): boolean {
  if (bytes.length > NATIVE_SEARCH_LENGTH) return ERROR_SPELLINGS.some((spelling) => bytes.includes(spelling));
  const { needle, skip } = ERROR;
  const { length } = bytes;
  const last = needle.length - 1;
  for (let end = last; end < length; end += skip[bytes[end] as number] as number) {
    let i = last;
    while (i >= 0 && ((bytes[end - last + i] as number) | CASE_BIT) === needle[i]) i--;
    if (i < 0) return true;
  }
  return false;
}

/**
 * Reports whether the bytes may contain `"key"`, a colon and the first byte of its value (default: a brace), ignoring white
 * space. A fast check without parsing: it may report a key at another place, but never misses one.
 * @param keys one, or several, any of which is enough; a list is compiled once, so it must be a constant
 */
export function mayContain(bytes: Buffer, keys: string | readonly string[], opening?: number): boolean {
  let search = memberSearches.get(keys);
  if (!search) {
    search = new MemberSearch([keys].flat());
    memberSearches.set(keys, search);
  }
  return search.mayBeIn(bytes, opening);
}

/** Searches for any of several members at once: no slower than for one. */
class MemberSearch {
  private readonly needles: readonly Buffer[];
  /** The shift for each byte at the end of a window that is as long as the shortest of them. */
  private readonly skip: Uint8Array;
  private readonly window: number;

  /** @param members their names */
  constructor(members: readonly string[]) {
    this.needles = members.map((name) => Buffer.from(JSON.stringify(name)));
    this.window = Math.min(255, ...this.needles.map(({ length }) => length));
    this.skip = new Uint8Array(256).fill(this.window);
    for (const needle of this.needles)
      for (let shift = this.window - 1; shift > 0; shift--) {
        const byte = needle[needle.length - 1 - shift] as number;
        this.skip[byte] = Math.min(this.skip[byte] as number, shift);
      }
  }

  /** Reports whether bytes may contain one of them, as `mayContain` does. */
  mayBeIn(bytes: Buffer, opening: number = OPEN_OBJECT): boolean {
    const { skip, window } = this;
    const { length } = bytes;
    for (let end = window - 1; end < length; ) {
      const byte = bytes[end] as number;
      if (byte === QUOTE && this.endsAt(bytes, end, opening)) return true;
      end += skip[byte] as number;
    }
    return false;
  }

  private endsAt(bytes: Buffer, end: number, opening: number): boolean {
    for (const needle of this.needles) {
      const last = needle.length - 1;
      let i = last - 1;
      while (i >= 0 && bytes[end - last + i] === needle[i]) i--;
      if (i >= 0) continue;
      const colon = afterSpace(bytes, end + 1);
      if (bytes[colon] === COLON && bytes[afterSpace(bytes, colon + 1)] === opening) return true;
    }
    return false;
  }
}

function compileNeedle(word: string): Needle {
  const compiled = newNeedle(word);
  wordNeedles.set(word, compiled);
  return compiled;
}

function newNeedle(word: string): Needle {
  const needle = Buffer.from(word);
  const skip = new Uint8Array(256).fill(needle.length);
  for (let i = 0; i < needle.length - 1; i++) skip[needle[i] as number] = needle.length - 1 - i;
  return { needle, skip };
}

function afterSpace(bytes: Buffer, from: number): number {
  let i = from;
  while (i < bytes.length && SPACES[bytes[i] as number] === 1) i++;
  return i;
}
