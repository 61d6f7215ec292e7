/** Counts the occurrences of a text in bytes that arrive in pieces with arbitrary boundaries. Occurrences do not overlap. */
export class Occurrences {
  count = 0;
  private readonly needle: Buffer;
  /** The last bytes before the next piece, at most one less than the text's length. */
  private tail: Buffer = Buffer.alloc(0);

  constructor(text: string) {
    this.needle = Buffer.from(text);
  }

  push(bytes: Buffer): void {
    const { needle } = this;
    const overlap = needle.length - 1;
    const seam = Buffer.concat([this.tail, bytes.subarray(0, overlap)]);
    // First an occurrence that begins before the piece, then those that begin in it.
    const spanning = seam.indexOf(needle);
    const isSpanning = spanning >= 0 && spanning < this.tail.length;
    if (isSpanning) this.count++;
    let end = isSpanning ? spanning - this.tail.length + needle.length : 0;
    for (let index = bytes.indexOf(needle, end); index >= 0; index = bytes.indexOf(needle, end)) {
      this.count++;
      end = index + needle.length;
    }
    const uncounted = end > 0 || bytes.length >= overlap ? bytes.subarray(end) : Buffer.concat([this.tail, bytes]);
    this.tail = Buffer.from(uncounted.subarray(Math.max(0, uncounted.length - overlap)));
  }
}
