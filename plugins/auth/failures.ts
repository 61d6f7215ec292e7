/** Milliseconds in which failures count together. */
const WINDOW = 60_000;
/** Addresses that are remembered; of more the one that failed longest ago is forgotten. */
const MOST = 10_000;

/** Failed authentications of each address. */
export class Failures {
  private readonly counts = new Map<string, { count: number; until: number }>();

  /** @param limit of an address within a minute; 0: none */
  constructor(
    private readonly limit: number,
    private readonly now: () => number = () => performance.now(),
  ) {}

  /** One more. Answers the seconds after which the address may fail again, where these are too many. */
  add(address: string): number | undefined {
    if (this.limit === 0) return undefined;
    const now = this.now();
    const known = this.counts.get(address);
    const entry = known && known.until > now ? known : { count: 0, until: now + WINDOW };
    entry.count++;
    // Moved to the end: the first is who failed longest ago.
    this.counts.delete(address);
    this.counts.set(address, entry);
    if (this.counts.size > MOST) this.counts.delete(this.counts.keys().next().value as string);
    return entry.count > this.limit ? Math.ceil((entry.until - now) / 1000) : undefined;
  }

  /** Addresses that are remembered. */
  get size(): number {
    return this.counts.size;
  }
}
