import { setTimeout as sleep } from "node:timers/promises";
import { DAY } from "./ledger-sums.ts";
import type { Database } from "./sqlite.ts";

/** Milliseconds from a ledger's opening to the first look at its age: who only asks it something has gone by then. */
const FIRST = 60_000;
/** Milliseconds between two looks. */
const AGAIN = 3_600_000;
/** About a millisecond in which nothing is written, and a rest in which others may write: some 4,000 rows a second. */
const STEP = { rows: 200, pause: 50 };

/** Before when (Unix milliseconds) rows have been taken away; 0: never. */
export const prunedBefore = (database: Database): number =>
  Number(database.prepare("select ifnull(max(before), 0) as before from usage_pruned").get()?.["before"]);

/**
 * Takes the rows of exchanges away that began before a moment, some at a time; the sums of their hours and days stay.
 * @param before Unix milliseconds, the first of a day in UTC
 * @param step rows of one transaction, and milliseconds between two
 * @returns how many rows, step by step
 */
export async function* pruned(
  database: Database,
  before: number,
  step: { readonly rows: number; readonly pause: number },
): AsyncGenerator<number> {
  // Told first: sums that are asked for in between are those of whole hours.
  await database.durably(() => {
    if (before <= prunedBefore(database)) return;
    database.prepare("delete from usage_pruned").run();
    database.prepare("insert into usage_pruned (before) values (?)").run(before);
  });
  const remove = database.prepare(
    `delete from usage where rowid in (select rowid from usage where time < ? order by time limit ${step.rows})`,
  );
  for (;;) {
    const { changes } = await database.patiently(() => database.transaction(() => remove.run(before)));
    yield Number(changes);
    if (Number(changes) < step.rows) return;
    await sleep(step.pause);
  }
}

/** Keeps a ledger's rows for so long, and not longer than a day and an hour more. */
export class Retention {
  private timer: NodeJS.Timeout | undefined;
  private running: Promise<void> = Promise.resolve();
  private stopped = false;

  /**
   * @param keep milliseconds; 0: for good
   * @param warn told when rows cannot be taken away
   * @param first milliseconds until it looks for the first time
   */
  constructor(
    private readonly database: Database,
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
    for await (const _ of pruned(this.database, before, STEP)) if (this.stopped) return;
  }
}
