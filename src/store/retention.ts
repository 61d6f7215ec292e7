import { DAY } from "./ledger-sums.ts";

/** Days for which vendors give an answer out again that was made in the background: until then its usage must not count again. */
const GIVEN_OUT = 31;

/** Up to when names go of what was counted once, where rows go up to a moment. Unix milliseconds. */
export const oldestName = (before: number): number => Math.min(before, Date.now() - GIVEN_OUT * DAY);

/** Milliseconds from a ledger's opening to the first look at its age: who only asks it something has gone by then. */
const FIRST = 60_000;
/** Milliseconds between two looks. */
const AGAIN = 3_600_000;

/** What a ledger tells of its age, Unix milliseconds. */
interface LedgerAge {
  /** When the newest of its rows began that are a day old or older; 0: there are none. */
  readonly newest: number;
  /** Before when rows have been taken away already; 0: never. */
  readonly pruned: number;
}

/** The rows of a ledger as far as their age goes. */
export interface AgingRows {
  /** @param now what the clock says */
  age(now: number): Promise<LedgerAge>;
  /** Takes rows away that are older than Unix milliseconds, in steps. */
  pruned(before: number): AsyncIterable<number>;
}

/**
 * Keeps a ledger's rows for so long, and not longer than a day and an hour more. A clock that is far ahead of the rows may
 * be wrong, so each look takes a day more then, and not all at once.
 */
export class Retention {
  private timer: NodeJS.Timeout | undefined;
  private doubted = false;
  private running: Promise<void> = Promise.resolve();
  private stopped = false;

  /**
   * @param keep milliseconds; 0: for good
   * @param warn told when rows cannot be taken away, and when the clock is doubted
   * @param first milliseconds until it looks for the first time
   * @param clock Unix milliseconds; a test may bring its own
   */
  constructor(
    private readonly rows: AgingRows,
    private readonly keep: number,
    private readonly warn: (message: string) => void,
    first = FIRST,
    private readonly clock: () => number = Date.now,
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
    const before = await this.before(this.clock());
    for await (const _ of this.rows.pruned(before)) if (this.stopped) return;
  }

  /** The first of a day: what is older goes. */
  private async before(now: number): Promise<number> {
    const { newest, pruned } = await this.rows.age(now);
    const asked = dayOf(now - this.keep);
    // Of a clock that was set ahead today's rows say nothing, as they have their times from it. Of a gateway that nobody
    // asked anything for days neither do those before: what went last goes on by a day.
    const sure = Math.max(dayOf(newest + 2 * DAY - this.keep), pruned + DAY);
    const doubted = newest > 0 && sure < asked;
    if (doubted && !this.doubted)
      this.warn(
        `The clock is ${Math.floor((now - newest) / DAY)} days ahead of the newest rows that are a day old. In case it is wrong, rows older than store: keep says go by one day each hour until all have gone.`,
      );
    this.doubted = doubted;
    return doubted ? sure : asked;
  }
}

const dayOf = (time: number): number => Math.floor(time / DAY) * DAY;
