/** Bytes of one character that is escaped (RFC 8259 §7). */
const ESCAPED = 6;
const BACKSLASH = 0x5c;
const NOTHING = Buffer.alloc(0);

/**
 * Looks for texts of JSON that begin with two letters, in any case and however they are escaped. Searches for a quote with what
 * stands behind it run in the machine's own code: one by a table of all of them takes twice as long where quotes are everywhere.
 */
export class TextStart {
  private readonly starts: readonly string[];
  private readonly second: ReadonlySet<number | undefined>;

  /** @param letters two of ASCII */
  constructor(letters: string) {
    const [first = "", second = ""] = letters;
    this.starts = [`"${first.toLowerCase()}`, `"${first.toUpperCase()}`];
    this.second = new Set([...Buffer.from(second.toLowerCase() + second.toUpperCase()), BACKSLASH]);
  }

  /** False: no text in these pieces, cut anywhere, begins with them. True: one may, only a look tells. */
  among(pieces: readonly Buffer[]): boolean {
    let before: Buffer = NOTHING;
    for (const piece of pieces) {
      // A copy of the seam, not of the piece: bodies are large.
      const seam = Buffer.concat([before, piece.subarray(0, ESCAPED)]);
      if (this.within(seam) || this.within(piece)) return true;
      before = piece.length < ESCAPED ? seam.subarray(-ESCAPED) : piece.subarray(-ESCAPED);
    }
    return false;
  }

  private within(bytes: Buffer): boolean {
    for (const start of this.starts)
      for (let at = bytes.indexOf(start); at >= 0; at = bytes.indexOf(start, at + 2))
        if (this.second.has(bytes[at + 2])) return true;
    return bytes.includes('"\\u00');
  }
}
