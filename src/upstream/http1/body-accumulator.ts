/** Where parts are joined. A read is processed in one go, so all connections share it; only a read of unusual size makes it grow. */
let joined = Buffer.allocUnsafeSlow(64 * 1024);

/**
 * The body bytes of one read, without the chunk sizes between them. A stream sends each event in a chunk of its own, and many
 * arrive in one read; delivering a piece costs as much as several events in one piece.
 */
export class BodyAccumulator {
  /** The only part so far, still in the read buffer. */
  private single: Buffer | undefined;
  private length = 0;

  /** Adds a part, whose buffer may be reused after `take`, which must follow before another accumulator is used. */
  add(part: Buffer): void {
    if (this.length === 0) this.single = part;
    else this.join(part);
    this.length += part.length;
  }

  /** Returns all parts in a buffer of its own; undefined where there is none. */
  take(): Buffer | undefined {
    const { single, length } = this;
    if (length === 0) return undefined;
    this.single = undefined;
    this.length = 0;
    return Buffer.from(single ?? joined.subarray(0, length));
  }

  private join(part: Buffer): void {
    const { single, length } = this;
    const needed = length + part.length;
    if (needed > joined.length) {
      const grown = Buffer.allocUnsafeSlow(2 * needed);
      joined.copy(grown, 0, 0, length);
      joined = grown;
    }
    single?.copy(joined);
    this.single = undefined;
    part.copy(joined, length);
  }
}
