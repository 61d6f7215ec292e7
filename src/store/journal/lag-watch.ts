import type { LedgerWarn } from "../ledger.ts";

/** Milliseconds by which the ledger may be behind the journal before a warning, and between repeated warnings. */
const MAX_LAG = 60_000;
const REPEAT_INTERVAL = 600_000;

/** Warns when the ledger is late: missing rows are still in the journal. */
export class LagWatch {
  private warned: { since: number; last: number } | undefined;

  /** @param clock monotonic milliseconds */
  constructor(
    private readonly warn: LedgerWarn,
    private readonly clock: () => number = () => performance.now(),
  ) {}

  /**
   * Must be called regularly. @param since when the oldest row missing from the ledger was written; undefined: none is missing
   */
  check(since: number | undefined): void {
    const now = this.clock();
    if (since === undefined || now - since < MAX_LAG) {
      if (this.warned) this.warn("The ledger has caught up with the journal.", undefined, true);
      this.warned = undefined;
    } else if (!this.warned || now - this.warned.last >= REPEAT_INTERVAL) {
      this.warned = { since: this.warned?.since ?? since, last: now };
      const late = Math.round((now - this.warned.since) / 1000);
      this.warn(`The ledger is ${late} s behind: what it lacks waits in the journal.`);
    }
  }
}
