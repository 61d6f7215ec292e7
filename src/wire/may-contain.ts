import { SPACES } from "./grammar.ts";

const COLON = 58;
const OPEN_OBJECT = 123;

/** The bytes to search for, and the shift for each byte below its last position (Horspool). */
interface Needle {
  readonly needle: Buffer;
  readonly skip: Uint8Array;
}

const keys = new Map<string, Needle>();
const words = new Map<string, Needle>();
/** Bytes from which on a call of the native search costs less than it saves. */
const LONG = 2048;

/**
 * Reports whether bytes contain a word. For the size of an event this is faster than `includes`, which is mostly call overhead.
 */
export function containsWord(bytes: Buffer, word: string): boolean {
  const { needle, skip } = words.get(word) ?? compileNeedle(words, word, word);
  if (bytes.length > LONG) return bytes.includes(needle);
  const last = needle.length - 1;
  for (let at = last; at < bytes.length; at += skip[bytes[at] as number] as number) {
    let k = last;
    while (k >= 0 && bytes[at - last + k] === needle[k]) k--;
    if (k < 0) return true;
  }
  return false;
}

/**
 * Reports whether the bytes may contain `"key"`, a colon and the first byte of its value (default: a brace), ignoring white
 * space. A fast check without parsing: it may report a key at another place, but never misses one.
 */
export function mayContain(bytes: Buffer, key: string, opening: number = OPEN_OBJECT): boolean {
  const { needle, skip } = keys.get(key) ?? compileNeedle(keys, key, JSON.stringify(key));
  const last = needle.length - 1;
  for (let at = last; at < bytes.length; at += skip[bytes[at] as number] as number) {
    let k = last;
    while (k >= 0 && bytes[at - last + k] === needle[k]) k--;
    if (k >= 0) continue;
    const colon = afterSpace(bytes, at + 1);
    if (bytes[colon] === COLON && bytes[afterSpace(bytes, colon + 1)] === opening) return true;
  }
  return false;
}

function compileNeedle(known: Map<string, Needle>, name: string, text: string): Needle {
  const needle = Buffer.from(text);
  const skip = new Uint8Array(256).fill(needle.length);
  for (let i = 0; i < needle.length - 1; i++) skip[needle[i] as number] = needle.length - 1 - i;
  known.set(name, { needle, skip });
  return { needle, skip };
}

function afterSpace(bytes: Buffer, from: number): number {
  let i = from;
  while (i < bytes.length && SPACES[bytes[i] as number] === 1) i++;
  return i;
}
