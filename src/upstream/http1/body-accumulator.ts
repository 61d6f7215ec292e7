/**
 * The body bytes of one read, without the chunk sizes between them. A stream sends each event in a chunk of its own, and many
 * arrive in one read; each piece that is handed over costs as much as several events in one piece.
 */
export class BodyAccumulator {
  /** The only part so far, still in the read buffer. */
  private only: Buffer | undefined;
  private joined: Buffer | undefined;
  private length = 0;

  /** Adds a part, whose buffer may be reused after `take`. */
  add(part: Buffer): void {
    if (this.length === 0) this.only = part;
    else this.join(part);
    this.length += part.length;
  }

  /** Returns all parts in a buffer of its own; undefined where there is none. */
  take(): Buffer | undefined {
    const { only, joined, length } = this;
    if (length === 0) return undefined;
    this.only = this.joined = undefined;
    this.length = 0;
    return joined ? joined.subarray(0, length) : Buffer.from(only as Buffer);
  }

  private join(part: Buffer): void {
    const { only, joined, length } = this;
    const needed = length + part.length;
    if (!joined || needed > joined.length) {
      // A few events more are as usual as a full read.
      const grown = Buffer.allocUnsafe(Math.max(4096, 2 * needed));
      (joined ?? (only as Buffer)).copy(grown, 0, 0, length);
      this.joined = grown;
      this.only = undefined;
    }
    part.copy(this.joined as Buffer, length);
  }
}
