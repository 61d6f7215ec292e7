/** Milliseconds in which failures are counted. */
const WINDOW = 60_000;
/** Maximum number of addresses; beyond it the one with the oldest failure is removed. */
const MAX_ADDRESSES = 10_000;

/** Counts failed authentications by address. */
export class WrongKeyLimiter {
  private readonly counts = new Map<string, { count: number; until: number }>();

  /** @param limit per address and minute; 0: none */
  constructor(
    private readonly limit: number,
    private readonly now: () => number = () => performance.now(),
  ) {}

  /** Counts a failure. Returns the seconds until the address may fail again, where the limit is exceeded. */
  add(address: string): number | undefined {
    if (this.limit === 0) return undefined;
    const now = this.now();
    const known = this.counts.get(address);
    const entry = known && known.until > now ? known : { count: 0, until: now + WINDOW };
    entry.count++;
    // Moved to the end: the first entry has the oldest failure.
    this.counts.delete(address);
    this.counts.set(address, entry);
    if (this.counts.size > MAX_ADDRESSES) this.counts.delete(this.counts.keys().next().value as string);
    return entry.count > this.limit ? Math.ceil((entry.until - now) / 1000) : undefined;
  }

  /** The number of addresses counted. */
  get size(): number {
    return this.counts.size;
  }
}
