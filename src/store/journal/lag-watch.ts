/** Milliseconds by which the ledger may be behind the journal before a warning, and between repeated warnings. */
const LATE = 60_000;
const AGAIN = 600_000;

/** Warns when the ledger is late: missing rows are still in the journal. */
export class LagWatch {
  private told: { since: number; last: number } | undefined;

  /** @param clock monotonic milliseconds */
  constructor(
    private readonly warn: (message: string) => void,
    private readonly clock: () => number = () => performance.now(),
  ) {}

  /**
   * Must be called regularly. @param since when the oldest row missing from the ledger was written; undefined: none is missing
   */
  look(since: number | undefined): void {
    const now = this.clock();
    if (since === undefined || now - since < LATE) {
      if (this.told) this.warn("The ledger has caught up with the journal.");
      this.told = undefined;
    } else if (!this.told || now - this.told.last >= AGAIN) {
      this.told = { since: this.told?.since ?? since, last: now };
      const late = Math.round((now - this.told.since) / 1000);
      this.warn(`The ledger is ${late} s behind: what it lacks waits in the journal.`);
    }
  }
}
