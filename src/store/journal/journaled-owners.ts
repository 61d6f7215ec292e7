import { setTimeout as sleep } from "node:timers/promises";
import type { MaybePromise } from "../../core/plugin.ts";
import { MemoryOwners } from "../memory-owners.ts";
import { type CreatedObject, type ObjectRows, ownersUnavailable } from "../object-rows.ts";
import { type OwnedObject, Owners } from "../owners.ts";

/** Milliseconds until the store's thread is notified of new objects, and until a retry where the thread has died. */
const FEED_DELAY = 20;
const RETRY_DELAY = 1000;
/** Milliseconds between lookups of an object that another process may be writing: its response can arrive before the row. */
const LOOKUP_DELAYS = [20, 80, 300, 600];
/** Milliseconds between further lookups, and their number, while the journal of a process that has died is not read yet. */
const [RECOVERY_DELAY, RECOVERY_LOOKUPS] = [250, 14];

/** The journal of a ledger, which also records objects. */
export interface ObjectJournal {
  /** Adds an object; its line is on disk at the end of this turn of the event loop. */
  addObject(object: CreatedObject): void;
  /** Waits until everything added so far is in the store. @throws Error when its thread has died */
  flush(): Promise<void>;
  /** Whether other processes may use the same store. */
  readonly hasOtherWriters: boolean;
  /** Whether one has died whose journal is not in the store yet, and was last used before that time. */
  hasDeadWriter(since: number): boolean;
}

/**
 * Owners that are journaled before the response that names an object is sent, and moved into the store by the ledger's thread.
 * Until then they are kept in memory.
 */
export class JournaledOwners extends Owners {
  /** Objects that are not in the store yet. */
  private readonly unsaved = new MemoryOwners();
  private readonly pauses = new Map<number, Promise<void>>();
  private timer: NodeJS.Timeout | undefined;
  private closed = false;

  constructor(
    private readonly rows: ObjectRows,
    private readonly journal: ObjectJournal,
  ) {
    super();
  }

  override find(id: string): MaybePromise<readonly OwnedObject[]> {
    const fail = (thrown: unknown): never => {
      throw ownersUnavailable(thrown);
    };
    const all = (stored: readonly OwnedObject[]) => this.merge(id, stored);
    try {
      const stored = this.rows.find(id);
      return stored instanceof Promise ? stored.then(all, fail) : all(stored);
    } catch (thrown) {
      return fail(thrown);
    }
  }

  override findSoon(
    id: string,
    suffices: (found: readonly OwnedObject[]) => boolean,
  ): MaybePromise<readonly OwnedObject[]> {
    const found = this.find(id);
    if (found instanceof Promise) return found.then((rows) => (suffices(rows) ? rows : this.retryFind(id, suffices)));
    return suffices(found) || !this.journal.hasOtherWriters ? found : this.retryFind(id, suffices);
  }

  override add(objects: readonly OwnedObject[]): void {
    const time = Date.now();
    for (const object of objects) if (this.unsaved.remember(object)) this.journal.addObject({ ...object, time });
    if (!this.closed) this.timer ??= this.scheduleConfirm(FEED_DELAY);
  }

  /** Objects still in the journal are stored when the ledger closes, or at the next start. */
  override async close(): Promise<void> {
    this.closed = true;
    clearTimeout(this.timer);
  }

  private async retryFind(
    id: string,
    suffices: (found: readonly OwnedObject[]) => boolean,
  ): Promise<readonly OwnedObject[]> {
    const start = Date.now();
    let found: readonly OwnedObject[] = [];
    for (let i = 0; i < LOOKUP_DELAYS.length + RECOVERY_LOOKUPS; i++) {
      if (i >= LOOKUP_DELAYS.length && !this.journal.hasDeadWriter(start)) break;
      await this.pause(LOOKUP_DELAYS[i] ?? RECOVERY_DELAY);
      found = await this.find(id);
      if (suffices(found)) break;
    }
    return found;
  }

  /** Returns one timer for all that begin to wait in the same turn of the event loop, so that the store gets one query. */
  private pause(wait: number): Promise<void> {
    const begun = this.pauses.get(wait);
    if (begun) return begun;
    const pause = sleep(wait);
    this.pauses.set(wait, pause);
    setImmediate(() => this.pauses.delete(wait));
    return pause;
  }

  /** Merges the stored objects of an id with those not stored yet. */
  private merge(id: string, stored: readonly OwnedObject[]): readonly OwnedObject[] {
    const known = (provider: string) => stored.some((row) => row.provider === provider);
    const fresh = this.unsaved.find(id).filter(({ provider }) => !known(provider));
    return fresh.length === 0 ? stored : [...stored, ...fresh];
  }

  private scheduleConfirm(delay: number): NodeJS.Timeout {
    return setTimeout(() => void this.confirm(), delay).unref();
  }

  /** Waits until new objects are in the store, then removes them from memory. */
  private async confirm(): Promise<void> {
    const made = this.unsaved.all();
    let delay = FEED_DELAY;
    try {
      await this.journal.flush();
      for (const object of made) this.unsaved.forget(object);
    } catch {
      // The thread has died, with a warning: a new one will read the journal.
      delay = RETRY_DELAY;
    }
    this.timer = this.unsaved.size > 0 && !this.closed ? this.scheduleConfirm(delay) : undefined;
  }
}
