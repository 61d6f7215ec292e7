import type { RunningReservation } from "../store/limiter.ts";
import type { MemoryLimiter } from "../store/memory-limiter.ts";
import type { FindCharges } from "../store/orphan-charges.ts";

/** Milliseconds until the rows of a dead worker are looked up first, doubled up to the longest while some are missing. */
const FIRST_DELAY = 1000;
const MAX_DELAY = 60_000;

/** The owner of reservations that were made at another primary. */
const NO_PRIMARY = "no primary";

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

  /** Reserves what exchanges that go on without their primary have reserved at that. */
  adopt(orphaned: readonly RunningReservation[]): void {
    for (const { reservation, time } of orphaned) this.limiter.adopt(reservation, time, NO_PRIMARY);
    this.release(NO_PRIMARY);
  }

  /**
   * Reads sums of the ledger that have no row of an exchange which is looked up later.
   * @throws the error of `read`, or of the look-up
   */
  async readSums<Sums>(read: () => Promise<Sums>): Promise<Sums> {
    for (;;) {
      const sums = await read();
      const { orphans } = this.limiter;
      const rows = orphans.length === 0 ? undefined : await this.findCharges(orphans);
      if (!rows?.size) return sums;
      // They may have come before the sums were read, or after.
      this.limiter.settleOrphans(rows);
    }
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
