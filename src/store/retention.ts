import { withTimeout } from "../core/timeout.ts";
import { DAY } from "./ledger-sums.ts";

/** Days for which vendors return responses generated in the background: until then their usage must not count again. */
const BACKGROUND_DAYS = 31;

/** Returns the time before which once-counted names are deleted, when rows are deleted before `before`. Unix milliseconds. */
export const onceNameCutoff = (before: number): number => Math.min(before, Date.now() - BACKGROUND_DAYS * DAY);

/** Milliseconds from a ledger's opening to the first check of its age: short-lived readers have exited by then. */
const FIRST_CHECK = 60_000;
/** Milliseconds between checks. */
const CHECK_INTERVAL = 3_600_000;

/** The age of a ledger's rows, in Unix milliseconds. */
interface LedgerAge {
  /** When the newest row that is at least a day old began; 0: there is none. */
  readonly newest: number;
  /** Before which time rows have been deleted already; 0: never. */
  readonly pruned: number;
}

/** The rows of a ledger, for retention. */
export interface PrunableRows {
  /** @param now the current time of the clock */
  age(now: number): Promise<LedgerAge>;
  /** Deletes rows from before a time (Unix milliseconds), in steps. */
  prune(before: number): AsyncIterable<number>;
}

/**
 * Deletes a ledger's rows after a given age, at most a day and an hour later. A clock far ahead of the rows may be wrong: then
 * each check deletes one more day, not all at once.
 */
export class Retention {
  private timer: NodeJS.Timeout | undefined;
  private clockDoubted = false;
  private running: Promise<void> = Promise.resolve();
  private stopped = false;

  /**
   * @param keep milliseconds; 0: forever
   * @param warn called when rows cannot be deleted, and when the clock seems wrong
   * @param first milliseconds until the first check
   * @param clock Unix milliseconds; injectable for tests
   */
  constructor(
    private readonly rows: PrunableRows,
    private readonly keep: number,
    private readonly warn: (message: string) => void,
    first = FIRST_CHECK,
    private readonly clock: () => number = Date.now,
  ) {
    if (keep > 0) this.timer = setTimeout(this.check, first).unref();
  }

  /** Stops after the current step, which may read all rows of a month. @param wait maximum milliseconds for it */
  async stop(wait: number): Promise<void> {
    this.stopped = true;
    clearTimeout(this.timer);
    await withTimeout(wait, this.running).catch(() => {});
  }

  private readonly check = (): void => {
    this.running = this.prune().catch((thrown: Error) => {
      // The end of the store breaks it off.
      if (this.stopped) return;
      this.warn(`Rows that are older than store: keep says cannot be taken away: ${thrown.message}.`);
    });
    void this.running.then(() => {
      if (!this.stopped) this.timer = setTimeout(this.check, CHECK_INTERVAL).unref();
    });
  };

  private async prune(): Promise<void> {
    const before = await this.cutoff(this.clock());
    for await (const _ of this.rows.prune(before)) if (this.stopped) return;
  }

  /** Returns the start of the oldest day to keep. */
  private async cutoff(now: number): Promise<number> {
    const { newest, pruned } = await this.rows.age(now);
    const cutoff = startOfDay(now - this.keep);
    // If the clock was set ahead, today's rows prove nothing, as their times come from it. If the gateway was idle for days,
    // neither do earlier rows: then each check deletes one more day.
    const sure = Math.max(startOfDay(newest + 2 * DAY - this.keep), pruned + DAY);
    const doubted = newest > 0 && sure < cutoff;
    const days = Math.floor((now - newest) / DAY);
    if (doubted && !this.clockDoubted)
      this.warn(
        `The clock is ${days === 1 ? "1 day" : `${days} days`} ahead of the newest rows that are a day old. In case it is wrong, rows older than store: keep says go by one day each hour until all have gone.`,
      );
    this.clockDoubted = doubted;
    return doubted ? sure : cutoff;
  }
}

const startOfDay = (time: number): number => Math.floor(time / DAY) * DAY;
