/** Parts of a window, which expire one by one. */
const PARTS = 10;

/** Counts events of two kinds within the last milliseconds. No timer runs. */
export class SlidingWindow {
  private readonly total: number[] = Array(PARTS).fill(0);
  private readonly marked: number[] = Array(PARTS).fill(0);
  /** Index of the part that is being filled, counted from the clock's zero. */
  private current = 0;

  /** @param length milliseconds */
  constructor(private readonly length: number) {}

  /** Counts one event of the first kind. */
  add(now: number): void {
    this.advance(now);
    (this.total[this.current % PARTS] as number)++;
  }

  /** Counts one event of the second kind, which does not count as one of the first. */
  mark(now: number): void {
    this.advance(now);
    (this.marked[this.current % PARTS] as number)++;
  }

  /** Returns the numbers of events of the first and of the second kind. */
  counts(now: number): { total: number; marked: number } {
    this.advance(now);
    let total = 0;
    let marked = 0;
    for (let i = 0; i < PARTS; i++) {
      total += this.total[i] as number;
      marked += this.marked[i] as number;
    }
    return { total, marked };
  }

  clear(): void {
    this.total.fill(0);
    this.marked.fill(0);
  }

  private advance(now: number): void {
    const part = Math.floor((now * PARTS) / this.length);
    const elapsedParts = Math.min(part - this.current, PARTS);
    for (let i = 0; i < elapsedParts; i++) {
      this.total[(part - i) % PARTS] = 0;
      this.marked[(part - i) % PARTS] = 0;
    }
    if (elapsedParts > 0) this.current = part;
  }
}
