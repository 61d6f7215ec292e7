import type { RunningReservation } from "./limiter.ts";
import type { MemoryLimiter } from "./memory-limiter.ts";
import type { FindCharges } from "./orphan-charges.ts";

/** Milliseconds until rows of orphans are looked up first, doubled up to the longest while some are missing. */
const FIRST_DELAY = 1000;
const MAX_DELAY = 60_000;
/** Milliseconds between checks for former processes, and the most readings of the ledger after their end. */
const FORMER_INTERVAL = 1000;
const MAX_RELOADS = 60;

/** The owner of reservations that former processes have made. */
const FORMER = "former processes";

interface OrphanWatchParts {
  readonly findCharges: FindCharges;
  /** Returns what former processes still run; see `Ledger.orphanedElsewhere`. */
  readonly findOrphaned: () => Promise<readonly RunningReservation[]>;
  /** Whether other processes, of another gateway, write to the same ledger; see `Ledger.isShared`. */
  readonly isShared: () => boolean;
}

/**
 * Counts in memory what other processes spend: workers that died, and those of a former gateway, which end what they run while
 * this one serves already. Looks up the rows of their exchanges until the ledger has all.
 */
export class OrphanWatch {
  private timer: NodeJS.Timeout | undefined;
  private formerTimer: NodeJS.Timeout | undefined;
  private delay = FIRST_DELAY;
  private adopting: Promise<void> | undefined;
  private closed = false;

  constructor(
    private readonly limiter: MemoryLimiter,
    private readonly parts: OrphanWatchParts,
  ) {}

  /** Called when a worker has died. */
  release(owner: string): void {
    this.limiter.release(owner);
    this.delay = FIRST_DELAY;
    this.schedule();
  }

  /**
   * Reads sums of the ledger that have no row of an exchange which is looked up later. The first time, what former processes
   * still run is reserved before.
   * @throws the error of `read`, or of a look-up
   */
  async readSums<Sums>(read: () => Promise<Sums>): Promise<Sums> {
    this.adopting ??= this.adopt();
    await this.adopting;
    for (;;) {
      const sums = await read();
      const { orphans } = this.limiter;
      const rows = orphans.length === 0 ? undefined : await this.parts.findCharges(orphans);
      if (!rows?.size) return sums;
      // They may have come before the sums were read, or after.
      this.limiter.settleOrphans(rows);
    }
  }

  close(): void {
    this.closed = true;
    clearTimeout(this.timer);
    clearTimeout(this.formerTimer);
  }

  private async adopt(): Promise<void> {
    try {
      for (const { reservation, time } of await this.parts.findOrphaned())
        this.limiter.adopt(reservation, time, FORMER);
      this.release(FORMER);
      if (this.parts.isShared()) this.awaitFormer(MAX_RELOADS);
    } catch (thrown) {
      this.adopting = undefined;
      throw thrown;
    }
  }

  /** Reads all sums again after the end of former processes: what these have begun meanwhile, nobody has reserved here. */
  private awaitFormer(reloads: number): void {
    if (this.closed) return;
    const check = async () => {
      if (this.parts.isShared()) this.awaitFormer(reloads);
      else if (!(await this.limiter.reload().catch(() => false)) && reloads > 1) this.awaitFormer(reloads - 1);
    };
    this.formerTimer = setTimeout(() => void check(), FORMER_INTERVAL).unref();
  }

  private schedule(): void {
    clearTimeout(this.timer);
    if (this.closed || this.limiter.orphans.length === 0) return;
    this.timer = setTimeout(() => void this.look(), this.delay).unref();
    this.delay = Math.min(2 * this.delay, MAX_DELAY);
  }

  private async look(): Promise<void> {
    // While the ledger cannot answer, everything stays reserved.
    const rows = await this.parts.findCharges(this.limiter.orphans).catch(() => undefined);
    if (rows) this.limiter.settleOrphans(rows);
    this.schedule();
  }
}
