import { setTimeout as sleep } from "node:timers/promises";
import { MemoryOwners } from "../memory-owners.ts";
import { type MadeObject, type ObjectRows, ownersSilent } from "../object-rows.ts";
import { type OwnedObject, Owners } from "../owners.ts";

/** Milliseconds until the store's thread is told of what was made, and until that is tried again where it has died. */
const DELAY = 20;
const AGAIN = 1000;
/** Milliseconds between looks for what another process may be writing: its answer has left before that is done. */
const LOOKS = [20, 80, 300, 600];

/** The journal of a ledger, which takes objects along. */
export interface ObjectJournal {
  /** The line is on disk at the end of this turn of the event loop. */
  made(object: MadeObject): void;
  /** Until all that was told so far is in the store. @throws Error when its thread has died */
  flush(): Promise<void>;
}

/**
 * Owners that stand in the ledger's journal before the answer that tells of an object has left, and get from there into the
 * store in the ledger's thread. Until then they are in memory.
 */
export class JournaledOwners extends Owners {
  /** What is not in the store yet. */
  private readonly waiting = new MemoryOwners();
  private readonly pauses = new Map<number, Promise<void>>();
  private timer: NodeJS.Timeout | undefined;
  private closed = false;

  /** @param others whether other processes may be using this store */
  constructor(
    private readonly rows: ObjectRows,
    private readonly journal: ObjectJournal,
    private readonly others: () => boolean,
  ) {
    super();
  }

  override find(id: string): readonly OwnedObject[] | Promise<readonly OwnedObject[]> {
    const silent = (thrown: unknown): never => {
      throw ownersSilent(thrown);
    };
    const all = (stored: readonly OwnedObject[]) => this.together(id, stored);
    try {
      const stored = this.rows.find(id);
      return stored instanceof Promise ? stored.then(all, silent) : all(stored);
    } catch (thrown) {
      return silent(thrown);
    }
  }

  override findSoon(id: string): readonly OwnedObject[] | Promise<readonly OwnedObject[]> {
    const found = this.find(id);
    if (found instanceof Promise) return found.then((rows) => (rows.length > 0 ? rows : this.look(id)));
    return found.length > 0 || !this.others() ? found : this.look(id);
  }

  override add(objects: readonly OwnedObject[]): void {
    const time = Date.now();
    for (const object of objects) if (this.waiting.remember(object)) this.journal.made({ ...object, time });
    if (!this.closed) this.timer ??= this.confirmIn(DELAY);
  }

  /** What is in the journal the ledger's closing puts into the store, or the next start. */
  override async close(): Promise<void> {
    this.closed = true;
    clearTimeout(this.timer);
  }

  private async look(id: string): Promise<readonly OwnedObject[]> {
    for (const wait of LOOKS) {
      await this.pause(wait);
      const found = await this.find(id);
      if (found.length > 0) return found;
    }
    return [];
  }

  /** One for all who begin to wait in the same turn of the event loop: they look again together, and the store is asked once. */
  private pause(wait: number): Promise<void> {
    const begun = this.pauses.get(wait);
    if (begun) return begun;
    const pause = sleep(wait);
    this.pauses.set(wait, pause);
    setImmediate(() => this.pauses.delete(wait));
    return pause;
  }

  /** What the store has of an id, and what is on its way there. */
  private together(id: string, stored: readonly OwnedObject[]): readonly OwnedObject[] {
    const known = (provider: string) => stored.some((row) => row.provider === provider);
    const fresh = this.waiting.find(id).filter(({ provider }) => !known(provider));
    return fresh.length === 0 ? stored : [...stored, ...fresh];
  }

  private confirmIn(delay: number): NodeJS.Timeout {
    return setTimeout(() => void this.confirm(), delay).unref();
  }

  /** Has what was made put into the store, and remembers it no longer. */
  private async confirm(): Promise<void> {
    const made = this.waiting.all();
    let delay = DELAY;
    try {
      await this.journal.flush();
      for (const object of made) this.waiting.forget(object);
    } catch {
      // The thread has died, which was told: what stands in the journal another one will read.
      delay = AGAIN;
    }
    this.timer = this.waiting.size > 0 && !this.closed ? this.confirmIn(delay) : undefined;
  }
}
