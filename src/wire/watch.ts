import { lettersLike } from "./any-case.ts";
import type { Scan } from "./members.ts";
import { ESCAPED_NAME, ESCAPED_VALUE, watchFor } from "./window.ts";

/** Bits that watches have: two of a word stand for escapes. */
const BITS = 30;

/** Bits by what they stand for: the same texts are watched for once, however often a configuration is read. */
const known = new Map<string, number>();

/**
 * A name as it may be spelled by those who read names in any case, as far as scans tell spellings apart: by the first letter,
 * the last two, and the bytes of those between.
 */
export function spellings(name: string): string[] {
  const [first = "", ...behind] = name;
  const between = longer(behind.slice(0, -2));
  const [lastButOne = "", last = ""] = behind.slice(-2);
  return lettersLike(first).flatMap((start) =>
    between.flatMap((middle) =>
      lettersLike(lastButOne).flatMap((near) => lettersLike(last).map((end) => start + middle + near + end)),
    ),
  );
}

/** Letters with none, one, two, … of those replaced of which another one takes more bytes. */
function longer(letters: readonly string[]): string[] {
  let all = new Map([[0, ""]]);
  for (const letter of letters) {
    const next = new Map<number, string>();
    for (const before of all.values())
      for (const each of lettersLike(letter)) next.set(Buffer.byteLength(before + each), before + each);
    all = next;
  }
  return [...all.values()];
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
