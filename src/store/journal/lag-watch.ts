/** Milliseconds for which the journal may be ahead of the ledger before an operator is told, and until that is told again. */
const LATE = 60_000;
const AGAIN = 600_000;

/** Says when the ledger is late: what it does not hold yet stands in the journal. */
export class LagWatch {
  private told: { since: number; last: number } | undefined;

  /** @param clock monotonic milliseconds */
  constructor(
    private readonly warn: (message: string) => void,
    private readonly clock: () => number = () => performance.now(),
  ) {}

  /** To be called every now and then. @param since when what is not in the ledger was written; undefined: all is */
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
