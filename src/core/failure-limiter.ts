/** Milliseconds in which failures are counted. */
const WINDOW = 60_000;
/** Maximum number of addresses; beyond it the one with the oldest failure is removed. */
const MAX_ADDRESSES = 10_000;

interface Failures {
  count: number;
  until: number;
}

/** Counts failed authentications by address. */
export class FailureLimiter {
  private readonly failures = new Map<string, Failures>();

  constructor(private readonly now: () => number = () => performance.now()) {}

  /**
   * Counts a failure.
   * @param limit per address and minute; 0: none
   * @returns the seconds until the address may fail again, where the limit is exceeded
   */
  add(address: string, limit: number): number | undefined {
    if (limit === 0) return undefined;
    const entry = this.current(address) ?? { count: 0, until: this.now() + WINDOW };
    entry.count++;
    // Moved to the end: the first entry has the oldest failure.
    this.failures.delete(address);
    this.failures.set(address, entry);
    if (this.failures.size > MAX_ADDRESSES) this.failures.delete(this.failures.keys().next().value as string);
    return this.retryAfter(address, limit);
  }

  /** Returns the seconds until the address may fail again; undefined: the limit is not exceeded. */
  retryAfter(address: string, limit: number): number | undefined {
    const entry = this.current(address);
    return entry && entry.count > limit ? Math.ceil((entry.until - this.now()) / 1000) : undefined;
  }

  /** Returns the number of recent failures of an address. */
  count(address: string): number {
    return this.current(address)?.count ?? 0;
  }

  /** The number of addresses counted. */
  get size(): number {
    return this.failures.size;
  }

  private current(address: string): Failures | undefined {
    const entry = this.failures.get(address);
    return entry && entry.until > this.now() ? entry : undefined;
  }
}
