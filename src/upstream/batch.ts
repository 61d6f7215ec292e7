/** Items that go through a step together at most: more of them would push each other out of the core's caches. */
const GROUP = 32;

/**
 * Does something to all that one turn of the event loop has brought, when all of it is here. What several requests have to do at
 * the same time is done step by step for all of them rather than request by request: the code of a request's whole life is more than
 * a core's caches hold, the code of one step is not. A group goes as far as it can at once, its promises and ticks too, before
 * the next one begins.
 */
export class Batch<Item> {
  private items: Item[] = [];
  private done = 0;

  constructor(private readonly act: (item: Item) => void) {}

  add(item: Item): void {
    if (this.items.length === 0) setImmediate(this.group);
    this.items.push(item);
  }

  private readonly group = (): void => {
    const { items, act } = this;
    const end = Math.min(items.length, this.done + GROUP);
    try {
      while (this.done < end) act(items[this.done++] as Item);
    } finally {
      if (this.done < items.length) queueMicrotask(this.soon);
      else {
        this.items = [];
        this.done = 0;
      }
    }
  };

  private readonly soon = (): void => process.nextTick(this.group);
}
