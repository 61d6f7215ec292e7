/** An item of a fair queue. */
export interface QueueItem {
  readonly caller: string;
  /** `performance.now()` from which on it waits. */
  readonly since: number;
}

interface QueueEntry<Item> {
  /** Undefined once it was taken or given up, so that entries still in a list do not keep it alive. */
  item: Item | undefined;
  readonly caller: WaitingCaller<Item>;
}

/** Number of consumed entries at the front of a list that are removed at once. */
const REMOVED_TOGETHER = 1024;

/** A FIFO list that does not move the rest with each shift. */
class Fifo<Entry> {
  private readonly entries: Entry[] = [];
  private at = 0;

  get first(): Entry | undefined {
    return this.entries[this.at];
  }

  push(entry: Entry): void {
    this.entries.push(entry);
  }

  shift(): Entry | undefined {
    const { entries, first } = this;
    if (this.at < entries.length) this.at++;
    if (this.at === entries.length || this.at === REMOVED_TOGETHER) {
      entries.splice(0, this.at);
      this.at = 0;
    }
    return first;
  }

  clear(): void {
    this.entries.length = this.at = 0;
  }
}

/** The queued items of one caller. */
interface WaitingCaller<Item> {
  readonly name: string;
  readonly entries: Fifo<QueueEntry<Item>>;
  /** Number of entries that still have an item. */
  waiting: number;
}

/**
 * A queue of requests in which callers take turns, so that a caller with few requests is served before the excess of another.
 * Each operation has constant cost, however many callers and requests there are.
 */
export class FairQueue<Item extends QueueItem> {
  private readonly callers = new Map<string, WaitingCaller<Item>>();
  /** Callers in the order of their turns. */
  private readonly turns = new Fifo<WaitingCaller<Item>>();
  /** All entries in order of arrival. */
  private readonly all = new Fifo<QueueEntry<Item>>();
  private count = 0;

  get size(): number {
    return this.count;
  }

  /** Returns the number of a caller's items. */
  countOf(caller: string): number {
    return this.callers.get(caller)?.waiting ?? 0;
  }

  /**
   * Returns how many items at most precede the next one of a caller.
   * @param own number of its items in the queue
   */
  maxAhead(own: number): number {
    return Math.min(this.count, (own + 1) * this.callers.size);
  }

  /** The item that has waited longest. */
  get oldest(): Item | undefined {
    return firstEntry(this.all)?.item;
  }

  add(item: Item): void {
    let caller = this.callers.get(item.caller);
    if (!caller) {
      caller = { name: item.caller, entries: new Fifo(), waiting: 0 };
      this.callers.set(item.caller, caller);
      this.turns.push(caller);
    }
    const entry = { item, caller };
    caller.waiting++;
    caller.entries.push(entry);
    this.all.push(entry);
    this.count++;
  }

  /** Removes and returns the next item by turn. */
  takeNext(): Item | undefined {
    for (let caller = this.turns.shift(); caller; caller = this.turns.shift()) {
      const entry = firstEntry(caller.entries);
      caller.entries.shift();
      if (firstEntry(caller.entries)) this.turns.push(caller);
      else this.callers.delete(caller.name);
      if (entry) return this.take(entry);
    }
    return undefined;
  }

  /** Removes and returns the item that has waited longest. */
  takeOldest(): Item | undefined {
    const entry = firstEntry(this.all);
    return entry && this.take(entry);
  }

  private take(entry: QueueEntry<Item>): Item {
    const { item, caller } = entry;
    entry.item = undefined;
    caller.waiting--;
    if (--this.count === 0) this.clear();
    else firstEntry(this.all);
    return item as Item;
  }

  /** Forgets all callers: those whose items were all taken as the oldest have no turn that would remove them. */
  private clear(): void {
    this.callers.clear();
    this.turns.clear();
    this.all.clear();
  }
}

/** Returns the first entry with an item, and drops those before it. */
function firstEntry<Item>(waiting: Fifo<QueueEntry<Item>>): QueueEntry<Item> | undefined {
  while (waiting.first && !waiting.first.item) waiting.shift();
  return waiting.first;
}
