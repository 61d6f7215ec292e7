import type { MemoryLimiter } from "../store/memory-limiter.ts";
import type { FindCharges } from "../store/orphan-charges.ts";

/** Milliseconds until the rows of a dead worker are looked up first, doubled up to the longest while some are missing. */
const FIRST_DELAY = 1000;
const MAX_DELAY = 60_000;

/** Looks up what the exchanges of dead workers cost, until the ledger has all of their rows. */
export class OrphanWatch {
  private timer: NodeJS.Timeout | undefined;
  private delay = FIRST_DELAY;

  constructor(
    private readonly limiter: MemoryLimiter,
    private readonly findCharges: FindCharges,
  ) {}

  /** Called when a worker has died. */
  release(owner: string): void {
    this.limiter.release(owner);
    this.delay = FIRST_DELAY;
    this.schedule();
  }

  close(): void {
    clearTimeout(this.timer);
  }

  private schedule(): void {
    clearTimeout(this.timer);
    if (this.limiter.orphans.length === 0) return;
    this.timer = setTimeout(() => void this.look(), this.delay).unref();
    this.delay = Math.min(2 * this.delay, MAX_DELAY);
  }

  private async look(): Promise<void> {
    // While the ledger cannot answer, everything stays reserved.
    const rows = await this.findCharges(this.limiter.orphans).catch(() => undefined);
    if (rows) this.limiter.settleOrphans(rows);
    this.schedule();
  }
}
