/** Maximum of items in a group: more would evict each other from the core's caches. */
const GROUP_SIZE = 32;

/**
 * Collects items during one turn of the event loop and processes them together afterwards. Concurrent requests then run one step
 * for all of them before the next step, because the code of one step fits in a core's caches and that of a request's whole life
 * does not. A group also runs its promises and ticks before the next group begins.
 */
export class Batch<Item> {
  private items: Item[] = [];
  private handledCount = 0;

  constructor(private readonly handle: (item: Item) => void) {}

  add(item: Item): void {
    if (this.items.length === 0) setImmediate(this.runGroup);
    this.items.push(item);
  }

  private readonly runGroup = (): void => {
    const { items, handle } = this;
    const end = Math.min(items.length, this.handledCount + GROUP_SIZE);
    try {
      while (this.handledCount < end) handle(items[this.handledCount++] as Item);
    } finally {
      if (this.handledCount < items.length) queueMicrotask(this.runGroupSoon);
      else {
        this.items = [];
        this.handledCount = 0;
      }
    }
  };

  private readonly runGroupSoon = (): void => process.nextTick(this.runGroup);
}
