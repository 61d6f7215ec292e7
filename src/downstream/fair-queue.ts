/** What waits for its turn. */
export interface QueueItem {
  /** Whose it is. */
  readonly caller: string;
  /** `performance.now()` from which on it waits. */
  readonly since: number;
}

interface QueuePlace<Item> {
  /** Undefined once it has had its turn, or was given up: what has gone must not be kept alive by what has not. */
  item: Item | undefined;
  readonly caller: WaitingCaller<Item>;
}

/** Those in front of a list that are taken from it are cut off so many at a time. */
const CUT = 1024;

/** First in, first out, without moving the rest each time. */
class Fifo<Entry> {
  private readonly entries: Entry[] = [];
  private at = 0;

  get length(): number {
    return this.entries.length - this.at;
  }

  get first(): Entry | undefined {
    return this.entries[this.at];
  }

  push(entry: Entry): void {
    this.entries.push(entry);
  }

  shift(): Entry | undefined {
    const { entries, first } = this;
    if (this.at < entries.length) this.at++;
    if (this.at === entries.length || this.at === CUT) {
      entries.splice(0, this.at);
      this.at = 0;
    }
    return first;
  }
}

/** What waits of one caller. */
interface WaitingCaller<Item> {
  readonly name: string;
  readonly places: Fifo<QueuePlace<Item>>;
  /** Those of them that have not gone. */
  waiting: number;
}

/**
 * Requests that wait for their turn: callers take turns, so that one who asks for little goes before what another has too much
 * of. Each costs the same, however many callers and requests there are.
 */
export class FairQueue<Item extends QueueItem> {
  private readonly callers = new Map<string, WaitingCaller<Item>>();
  /** Callers in the order of their turns. */
  private readonly turns = new Fifo<WaitingCaller<Item>>();
  /** In the order in which they came. */
  private readonly all = new Fifo<QueuePlace<Item>>();
  private count = 0;

  get size(): number {
    return this.count;
  }

  /** How many a caller has. */
  of(caller: string): number {
    return this.callers.get(caller)?.waiting ?? 0;
  }

  /** How many at most go before the next one of a caller. @param own those that it has already */
  before(own: number): number {
    return Math.min(this.count, (own + 1) * this.callers.size);
  }

  /** The one that has come first, of those that wait. */
  get oldest(): Item | undefined {
    return first(this.all)?.item;
  }

  add(item: Item): void {
    let caller = this.callers.get(item.caller);
    if (!caller) {
      caller = { name: item.caller, places: new Fifo(), waiting: 0 };
      this.callers.set(item.caller, caller);
      this.turns.push(caller);
    }
    const place = { item, caller };
    caller.waiting++;
    caller.places.push(place);
    this.all.push(place);
    this.count++;
  }

  /** Takes out whose turn it is. */
  next(): Item | undefined {
    for (let caller = this.turns.shift(); caller; caller = this.turns.shift()) {
      const place = first(caller.places);
      caller.places.shift();
      if (first(caller.places)) this.turns.push(caller);
      else this.callers.delete(caller.name);
      if (place) return this.take(place);
    }
    return undefined;
  }

  /** Takes out the one that has come first. */
  giveUp(): Item | undefined {
    const place = first(this.all);
    return place && this.take(place);
  }

  private take(place: QueuePlace<Item>): Item {
    const item = this.leave(place);
    first(this.all);
    return item;
  }

  private leave(place: QueuePlace<Item>): Item {
    const { item, caller } = place;
    place.item = undefined;
    this.count--;
    caller.waiting--;
    return item as Item;
  }
}

/** The first that has not gone. */
function first<Item>(waiting: Fifo<QueuePlace<Item>>): QueuePlace<Item> | undefined {
  while (waiting.first && !waiting.first.item) waiting.shift();
  return waiting.first;
}
