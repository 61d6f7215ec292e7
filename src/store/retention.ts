import { DAY } from "./ledger-sums.ts";

/** Days for which vendors give an answer out again that was made in the background: until then its usage must not count again. */
const GIVEN_OUT = 31;

/** Up to when names go of what was counted once, where rows go up to a moment. Unix milliseconds. */
export const oldestName = (before: number): number => Math.min(before, Date.now() - GIVEN_OUT * DAY);

/** Milliseconds from a ledger's opening to the first look at its age: who only asks it something has gone by then. */
const FIRST = 60_000;
/** Milliseconds between two looks. */
const AGAIN = 3_600_000;

/** Keeps a ledger's rows for so long, and not longer than a day and an hour more. */
export class Retention {
  private timer: NodeJS.Timeout | undefined;
  private running: Promise<void> = Promise.resolve();
  private stopped = false;

  /**
   * @param pruned takes rows away that are older than Unix milliseconds, in steps
   * @param keep milliseconds; 0: for good
   * @param warn told when rows cannot be taken away
   * @param first milliseconds until it looks for the first time
   */
  constructor(
    private readonly pruned: (before: number) => AsyncIterable<number>,
    private readonly keep: number,
    private readonly warn: (message: string) => void,
    first = FIRST,
  ) {
    if (keep > 0) this.timer = setTimeout(this.look, first).unref();
  }

  /** Ends it: until the step that runs is done. */
  async stop(): Promise<void> {
    this.stopped = true;
    clearTimeout(this.timer);
    await this.running;
  }

  private readonly look = (): void => {
    this.running = this.prune().catch((thrown: Error) => {
      this.warn(`Rows that are older than store: keep says cannot be taken away: ${thrown.message}.`);
    });
    void this.running.then(() => {
      if (!this.stopped) this.timer = setTimeout(this.look, AGAIN).unref();
    });
  };

  private async prune(): Promise<void> {
    const before = Math.floor((Date.now() - this.keep) / DAY) * DAY;
    for await (const _ of this.pruned(before)) if (this.stopped) return;
  }
}
