/**
 * The body bytes of one read, without the chunk sizes between them. A stream sends each event in a chunk of its own, and many
 * arrive in one read; delivering a piece costs as much as several events in one piece.
 */
export class BodyAccumulator {
  /** The only part so far, still in the read buffer. */
  private single: Buffer | undefined;
  private joined: Buffer | undefined;
  private length = 0;

  /** Adds a part, whose buffer may be reused after `take`. */
  add(part: Buffer): void {
    if (this.length === 0) this.single = part;
    else this.join(part);
    this.length += part.length;
  }

  /** Returns all parts in a buffer of its own; undefined where there is none. */
  take(): Buffer | undefined {
    const { single, joined, length } = this;
    if (length === 0) return undefined;
    this.single = this.joined = undefined;
    this.length = 0;
    return joined ? joined.subarray(0, length) : Buffer.from(single as Buffer);
  }

  private join(part: Buffer): void {
    const { single, joined, length } = this;
    const needed = length + part.length;
    if (!joined || needed > joined.length) {
      // Doubled: the next read may have only a few more events, or fill the read buffer.
      const grown = Buffer.allocUnsafe(Math.max(4096, 2 * needed));
      (joined ?? (single as Buffer)).copy(grown, 0, 0, length);
      this.joined = grown;
      this.single = undefined;
    }
    part.copy(this.joined as Buffer, length);
  }
}
