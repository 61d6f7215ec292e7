import { SPACES } from "./grammar.ts";

const COLON = 58;
const OPEN_OBJECT = 123;

/** How far a search for `"key"` may go on when a byte stands under its last place. */
const skips = new Map<string, { needle: Buffer; skip: Uint8Array }>();

/**
 * True when the bytes hold `"key"`, a colon and the byte its value opens with (a brace unless told), white space aside.
 * A quick look, not a parse: it can be wrong about a key at another place, never about one that is there.
 */
export function mayContain(bytes: Buffer, key: string, opening: number = OPEN_OBJECT): boolean {
  let known = skips.get(key);
  if (!known) {
    const needle = Buffer.from(JSON.stringify(key));
    const skip = new Uint8Array(256).fill(needle.length);
    for (let i = 0; i < needle.length - 1; i++) skip[needle[i] as number] = needle.length - 1 - i;
    known = { needle, skip };
    skips.set(key, known);
  }
  const { needle, skip } = known;
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

function afterSpace(bytes: Buffer, from: number): number {
  let i = from;
  while (i < bytes.length && SPACES[bytes[i] as number] === 1) i++;
  return i;
}
