import type { Scan } from "./members.ts";
import { Watch } from "./watch.ts";

/** Bytes of one escaped character (RFC 8259 §7). */
const ESCAPED = 6;
const EMPTY = Buffer.alloc(0);

/**
 * Searches JSON for strings that begin with two letters, in any case and with any escapes. Uses native searches for a quote and
 * the first letter: one table-driven search takes twice as long where quotes are frequent.
 */
export class StringStartSearch {
  private readonly starts: readonly string[];
  private readonly second: ReadonlySet<number | undefined>;
  private readonly watch: Watch;

  /** @param letters two ASCII letters */
  constructor(letters: string) {
    const [first = "", second = ""] = letters;
    const firstSpellings = [first.toLowerCase(), first.toUpperCase()];
    const secondSpellings = [second.toLowerCase(), second.toUpperCase(), "\\"];
    this.starts = firstSpellings.map((letter) => `"${letter}`);
    this.second = new Set(Buffer.from(secondSpellings.join("")));
    const pairs = firstSpellings.flatMap((letter) => secondSpellings.map((next) => letter + next));
    this.watch = new Watch([], [], [...pairs, "\\u"]);
  }

  /** Returns false if no value below the top level of a text begins with the letters. True: one may; only a search can tell. */
  mayMatch(scan: Scan): boolean {
    return this.watch.mayMatch(scan);
  }

  /** Returns false if no string in these pieces, cut anywhere, begins with the letters. True: one may; only a search can tell. */
  mayOccurIn(pieces: readonly Buffer[]): boolean {
    let tail: Buffer = EMPTY;
    for (const piece of pieces) {
      // Copies the seam, not the piece: bodies are large.
      const seam = Buffer.concat([tail, piece.subarray(0, ESCAPED)]);
      if (this.mayOccurInPiece(seam) || this.mayOccurInPiece(piece)) return true;
      tail = piece.length < ESCAPED ? seam.subarray(-ESCAPED) : piece.subarray(-ESCAPED);
    }
    return false;
  }

  private mayOccurInPiece(bytes: Buffer): boolean {
    for (const start of this.starts)
      for (let index = bytes.indexOf(start); index >= 0; index = bytes.indexOf(start, index + 2))
        if (this.second.has(bytes[index + 2])) return true;
    return bytes.includes('"\\u00');
  }
}
