/** How long a value is kept, and the space for all values. */
interface KeepTerms {
  /** From now. */
  readonly milliseconds: number;
  /** Approximate limit for all values of the space; the oldest are removed first. */
  readonly bytes: number;
}

/**
 * Values that plugins keep for a while, by name: of one gateway in its SQLite file, or shared by several through a database.
 * They are a cache: a value may disappear at any time.
 */
export abstract class KeptValues {
  /** Bytes that this process has written since the last check of the total, by space. */
  private readonly bytesSincePrune = new Map<string, number>();

  /**
   * @param space the namespace, like a plugin's name
   * @returns undefined for a missing or expired value
   * @throws Error when the store does not respond
   */
  abstract get(space: string, name: string): Promise<Buffer | undefined>;

  /**
   * Stores a value, replacing that of the same name.
   * @throws RangeError for a value larger than the whole space, Error when the store does not respond
   */
  async set(space: string, name: string, value: Buffer, { milliseconds, bytes }: KeepTerms): Promise<void> {
    if (value.length > bytes) throw new RangeError(`${value.length} bytes are more than the ${bytes} of all values.`);
    const now = Date.now();
    const added = (this.bytesSincePrune.get(space) ?? bytes) + value.length;
    // Computing the total at each write would cost too much.
    const mustPrune = added * 16 > bytes;
    this.bytesSincePrune.set(space, mustPrune ? 0 : added);
    // The stores have whole numbers.
    await this.write(space, name, value, Math.round(now + milliseconds), now);
    if (mustPrune) await this.prune(space, Math.floor(bytes), now);
  }

  protected abstract write(space: string, name: string, value: Buffer, until: number, now: number): Promise<void>;

  /** Removes expired values of all spaces, and the oldest of one space beyond so many bytes. */
  protected abstract prune(space: string, bytes: number, now: number): Promise<void>;
}
