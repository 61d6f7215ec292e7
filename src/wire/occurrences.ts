/** Counts the occurrences of a text in bytes that arrive in pieces with arbitrary boundaries. Occurrences do not overlap. */
export class Occurrences {
  count = 0;
  private readonly needle: Buffer;
  /** The last bytes before the next piece, at most one less than the text's length. */
  private rest: Buffer = Buffer.alloc(0);

  constructor(text: string) {
    this.needle = Buffer.from(text);
  }

  push(bytes: Buffer): void {
    const { needle } = this;
    const overlap = needle.length - 1;
    const seam = Buffer.concat([this.rest, bytes.subarray(0, overlap)]);
    // First an occurrence that begins before the piece, then those that begin in it.
    const cut = seam.indexOf(needle);
    const isCut = cut >= 0 && cut < this.rest.length;
    if (isCut) this.count++;
    let end = isCut ? cut - this.rest.length + needle.length : 0;
    for (let at = bytes.indexOf(needle, end); at >= 0; at = bytes.indexOf(needle, end)) {
      this.count++;
      end = at + needle.length;
    }
    const past = end > 0 || bytes.length >= overlap ? bytes.subarray(end) : Buffer.concat([this.rest, bytes]);
    this.rest = Buffer.from(past.subarray(Math.max(0, past.length - overlap)));
  }
}
