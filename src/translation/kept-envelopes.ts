/** Maximum milliseconds, maximum number, and maximum characters in total. */
const LIMITS = { age: 3_600_000, count: 20_000, size: 64 * 1024 * 1024 };
/** Maximum characters of one. */
const MAX_KEPT = LIMITS.size / 64;

interface KeptEnvelope {
  readonly caller: string;
  readonly envelope: string;
  readonly since: number;
}

/** What is kept for one caller. */
interface CallerEnvelopes {
  /** The oldest first. */
  readonly keys: Set<string>;
  size: number;
}

/**
 * Envelopes by caller and call, for clients that lose them. Where there is no room, a caller that has more than the average of all
 * loses its own oldest one, so that one with many calls does not displace those of others.
 */
export class KeptEnvelopes {
  /** The oldest first. */
  private readonly kept = new Map<string, KeptEnvelope>();
  private readonly shares = new Map<string, CallerEnvelopes>();
  private size = 0;

  constructor(private readonly now: () => number) {}

  /** @param callId not converted to a string where nothing is kept */
  get(caller: string, callId: { toString(): string }): string | undefined {
    const found = this.kept.size === 0 ? undefined : this.kept.get(keyOf(caller, `${callId}`));
    return found && !this.hasExpired(found) ? found.envelope : undefined;
  }

  /** Replaces that of the same call. Does nothing besides for one that is too large. */
  set(caller: string, callId: string, envelope: string): void {
    const key = keyOf(caller, callId);
    this.delete(key);
    if (envelope.length > MAX_KEPT) return;
    this.kept.set(key, { caller, envelope, since: this.now() });
    const share = this.shares.getOrInsertComputed(caller, () => ({ keys: new Set<string>(), size: 0 }));
    share.keys.add(key);
    share.size += envelope.length;
    this.size += envelope.length;
    for (const [oldest, found] of this.kept) {
      if (!this.hasExpired(found)) break;
      this.delete(oldest);
    }
    while (this.kept.size > LIMITS.count || this.size > LIMITS.size) this.delete(this.displacedBy(share));
  }

  private hasExpired({ since }: KeptEnvelope): boolean {
    return since <= this.now() - LIMITS.age;
  }

  private displacedBy({ keys, size }: CallerEnvelopes): string {
    const callers = this.shares.size;
    const isLarge = this.size > LIMITS.size ? size * callers > this.size : keys.size * callers > this.kept.size;
    const [oldest = ""] = isLarge && keys.size > 1 ? keys : this.kept.keys();
    return oldest;
  }

  private delete(key: string): void {
    const found = this.kept.get(key);
    const share = found && this.shares.get(found.caller);
    if (!share) return;
    this.kept.delete(key);
    share.keys.delete(key);
    share.size -= found.envelope.length;
    this.size -= found.envelope.length;
    if (share.keys.size === 0) this.shares.delete(found.caller);
  }
}

const keyOf = (caller: string, callId: string): string => `${caller.length} ${caller} ${callId}`;
