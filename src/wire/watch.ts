import { letterVariants } from "./any-case.ts";
import type { Scan } from "./members.ts";
import { addStartWatch, addWatch, ESCAPED_NAME, ESCAPED_VALUE } from "./window.ts";

/** Number of bits for watches: two of a word are used for escapes. */
const BITS = 30;

/** Bits by their texts: the same texts get the same bit, however often a configuration is read. */
const bitByTexts = new Map<string, number>();

/**
 * Returns the spellings of a name that case-insensitive readers accept, as far as scans distinguish them: by the first letter,
 * the last two, and the byte length.
 */
export function caseSpellings(name: string): string[] {
  const [first = "", ...others] = name;
  const between = longerVariants(others.slice(0, -2));
  const [lastButOne = "", last = ""] = others.slice(-2);
  return letterVariants(first).flatMap((start) =>
    between.flatMap((middle) =>
      letterVariants(lastButOne).flatMap((near) => letterVariants(last).map((end) => start + middle + near + end)),
    ),
  );
}

/** Returns the letters with none, one, two, … of them replaced by a case variant with more bytes. */
function longerVariants(letters: readonly string[]): string[] {
  let variants = new Map([[0, ""]]);
  for (const letter of letters) {
    const next = new Map<number, string>();
    const spellings = letterVariants(letter).map((text) => ({ text, bytes: Buffer.byteLength(text) }));
    for (const [length, prefix] of variants)
      for (const { text, bytes } of spellings) next.set(length + bytes, prefix + text);
    variants = next;
  }
  return [...variants.values()];
}

/** Returns false if no name in the text has a `\u` in it. True: one may. */
export const mayEscapeNames = (scan: Scan): boolean => (scan.seen & ESCAPED_NAME) !== 0;

/**
 * Names, short values and beginnings of values that every scan of a JSON text looks for as it passes them: their absence is known
 * without searching the text again.
 */
export class Watch {
  private readonly mask: number;

  /**
   * @param values values of members or elements of arrays
   * @param starts first two bytes of values as they are written: those that begin with escapes are among them, or not found
   */
  constructor(names: readonly string[], values: readonly string[] = [], starts: readonly string[] = []) {
    const key = JSON.stringify([names, values, starts]);
    let bit = bitByTexts.get(key);
    if (bit === undefined) {
      // With more watches than bits some share one, which only makes false positives more likely.
      bit = 1 << (bitByTexts.size % BITS);
      bitByTexts.set(key, bit);
      addWatch(names, bit, "name");
      addWatch(values, bit, "value");
      addStartWatch(starts, bit);
    }
    this.mask = bit | (names.length > 0 ? ESCAPED_NAME : 0) | (values.length > 0 ? ESCAPED_VALUE : 0);
  }

  /**
   * Returns false if none of the names, values and starts occurs below the top level of the text, however it is escaped. True: one
   * may; only a search can tell.
   */
  mayMatch(scan: Scan): boolean {
    return (scan.seen & this.mask) !== 0;
  }
}
