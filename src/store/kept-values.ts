/** How a value is kept. */
interface KeepTerms {
  /** From now on. */
  readonly milliseconds: number;
  /** All values of the space together, about; the oldest go first. */
  readonly bytes: number;
}

/**
 * Values that plugins keep for a while, by names: of one gateway in its SQLite file, of several that share a database for all of
 * them. What is kept is no truth: it may be gone at any time.
 */
export abstract class KeptValues {
  /** Bytes that this process has kept since it last looked how many there are, by space. */
  private readonly added = new Map<string, number>();

  /**
   * @param space whose names these are, like a plugin's own
   * @returns undefined where there is none, or its time is over
   * @throws Error where the store does not answer
   */
  abstract find(space: string, name: string): Promise<Buffer | undefined>;

  /**
   * Keeps a value in the place of the one that the name has.
   * @throws RangeError for a value larger than all may be together, Error where the store does not answer
   */
  async keep(space: string, name: string, value: Buffer, { milliseconds, bytes }: KeepTerms): Promise<void> {
    if (value.length > bytes) throw new RangeError(`${value.length} bytes are more than the ${bytes} of all values.`);
    const now = Date.now();
    const added = (this.added.get(space) ?? bytes) + value.length;
    // To look at all of them each time would cost more than what is looked for.
    const looks = added * 16 > bytes;
    this.added.set(space, looks ? 0 : added);
    await this.write(space, name, value, now + milliseconds, now);
    if (looks) await this.prune(space, bytes, now);
  }

  protected abstract write(space: string, name: string, value: Buffer, until: number, now: number): Promise<void>;

  /** Forgets what is over in any space, and the oldest of one beyond so many bytes. */
  protected abstract prune(space: string, bytes: number, now: number): Promise<void>;
}
