import { SPACES } from "./grammar.ts";

const COLON = 58;
const OPEN_OBJECT = 123;

/** The bytes to search for, and the shift for each byte below its last position (Horspool). */
interface Needle {
  readonly needle: Buffer;
  readonly skip: Uint8Array;
}

const keyNeedles = new Map<string, Needle>();
const wordNeedles = new Map<string, Needle>();
/** Bytes from which on a call of the native search costs less than it saves. */
const NATIVE_SEARCH_LENGTH = 2048;

/**
 * Reports whether bytes contain a word. For the size of an event this is faster than `includes`, which is mostly call overhead.
 */
export function containsWord(bytes: Buffer, word: string): boolean {
  const { needle, skip } = wordNeedles.get(word) ?? compileNeedle(wordNeedles, word, word);
  if (bytes.length > NATIVE_SEARCH_LENGTH) return bytes.includes(needle);
  const last = needle.length - 1;
  for (let end = last; end < bytes.length; end += skip[bytes[end] as number] as number) {
    let i = last;
    while (i >= 0 && bytes[end - last + i] === needle[i]) i--;
    if (i < 0) return true;
  }
  return false;
}

/**
 * Reports whether the bytes may contain `"key"`, a colon and the first byte of its value (default: a brace), ignoring white
 * space. A fast check without parsing: it may report a key at another place, but never misses one.
 */
export function mayContain(bytes: Buffer, key: string, opening: number = OPEN_OBJECT): boolean {
  const { needle, skip } = keyNeedles.get(key) ?? compileNeedle(keyNeedles, key, JSON.stringify(key));
  const last = needle.length - 1;
  for (let end = last; end < bytes.length; end += skip[bytes[end] as number] as number) {
    let i = last;
    while (i >= 0 && bytes[end - last + i] === needle[i]) i--;
    if (i >= 0) continue;
    const colon = afterSpace(bytes, end + 1);
    if (bytes[colon] === COLON && bytes[afterSpace(bytes, colon + 1)] === opening) return true;
  }
  return false;
}

function compileNeedle(cache: Map<string, Needle>, name: string, text: string): Needle {
  const needle = Buffer.from(text);
  const skip = new Uint8Array(256).fill(needle.length);
  for (let i = 0; i < needle.length - 1; i++) skip[needle[i] as number] = needle.length - 1 - i;
  cache.set(name, { needle, skip });
  return { needle, skip };
}

function afterSpace(bytes: Buffer, from: number): number {
  let i = from;
  while (i < bytes.length && SPACES[bytes[i] as number] === 1) i++;
  return i;
}
