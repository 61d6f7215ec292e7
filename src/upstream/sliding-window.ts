/** Parts of a window: what is older than one leaves part by part. */
const PARTS = 10;

/** Counts what happened within the last so many milliseconds, of two kinds. No timer runs. */
export class SlidingWindow {
  private readonly all: number[] = Array(PARTS).fill(0);
  private readonly some: number[] = Array(PARTS).fill(0);
  /** Number of the part that is being filled, since the clock began. */
  private current = 0;

  /** @param length milliseconds */
  constructor(private readonly length: number) {}

  /** One more happened. */
  add(now: number): void {
    this.advance(now);
    (this.all[this.current % PARTS] as number)++;
  }

  /** One more of the second kind, which is not counted as one of the first. */
  mark(now: number): void {
    this.advance(now);
    (this.some[this.current % PARTS] as number)++;
  }

  /** How many of the first kind there are, and how many of the second. */
  counts(now: number): { all: number; some: number } {
    this.advance(now);
    let all = 0;
    let some = 0;
    for (let i = 0; i < PARTS; i++) {
      all += this.all[i] as number;
      some += this.some[i] as number;
    }
    return { all, some };
  }

  clear(): void {
    this.all.fill(0);
    this.some.fill(0);
  }

  private advance(now: number): void {
    const part = Math.floor((now * PARTS) / this.length);
    const behind = Math.min(part - this.current, PARTS);
    for (let i = 0; i < behind; i++) {
      this.all[(part - i) % PARTS] = 0;
      this.some[(part - i) % PARTS] = 0;
    }
    if (behind > 0) this.current = part;
  }
}
