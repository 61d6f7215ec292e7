import type { Scan } from "./members.ts";
import { ESCAPED_NAME, ESCAPED_VALUE, watchFor } from "./window.ts";

/** Bits that watches have: two of a word stand for escapes. */
const BITS = 30;

/** Bits by what they stand for: the same texts are watched for once, however often a configuration is read. */
const known = new Map<string, number>();

/**
 * A name as it may be spelled by those who read names in any case, as far as scans tell spellings apart: by the case of the
 * first letter and of the last two.
 */
export function spellings(name: string): string[] {
  let all = [name];
  for (const at of [0, name.length - 2, name.length - 1])
    all = all.flatMap((each) => {
      const [before, letter, behind] = [each.slice(0, at), each.charAt(at), each.slice(at + 1)];
      return [...new Set([letter, letter.toLowerCase(), letter.toUpperCase()])].map((as) => before + as + behind);
    });
  return [...new Set(all)];
}

/**
 * Names, and short values, for which every scan of a JSON text looks out while it passes them anyway: whether there is none is
 * known without another look at the text.
 */
export class Watch {
  private readonly mask: number;

  /** @param values texts that are values of members or elements of arrays */
  constructor(names: readonly string[], values: readonly string[] = []) {
    const key = JSON.stringify([names, values]);
    let bit = known.get(key);
    if (bit === undefined) {
      // With more of them than bits some share one, which only makes a yes less sure.
      bit = 1 << (known.size % BITS);
      known.set(key, bit);
      watchFor(names, bit, "name");
      watchFor(values, bit, "value");
    }
    this.mask = bit | (names.length > 0 ? ESCAPED_NAME : 0) | (values.length > 0 ? ESCAPED_VALUE : 0);
  }

  /**
   * False: none of the names stands below the top level of the text, and none of the values, however it is escaped. True: one
   * may; only a look tells.
   */
  maySee(scan: Scan): boolean {
    return (scan.seen & this.mask) !== 0;
  }
}
