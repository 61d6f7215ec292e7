/** Half of the values are below `p50`, and so on. */
export interface PercentileFigures {
  readonly p50: number;
  readonly p95: number;
  readonly p99: number;
  readonly count: number;
}

/** The logarithm of the ratio between the bounds of a bucket. */
const STEP = Math.log(1.12);

/** Percentiles of any number of positive values, within 6 %, in little memory. */
export class Percentiles {
  private readonly buckets = new Map<number, number>();
  private count = 0;

  add(value: number): void {
    if (!(value > 0)) return;
    const bucket = Math.floor(Math.log(value) / STEP);
    this.buckets.set(bucket, (this.buckets.get(bucket) ?? 0) + 1);
    this.count++;
  }

  /** Undefined without values. */
  get figures(): PercentileFigures | undefined {
    if (this.count === 0) return undefined;
    const sorted = [...this.buckets].sort(([a], [b]) => a - b);
    const at = (share: number) => {
      let left = Math.ceil(this.count * share);
      for (const [bucket, count] of sorted) {
        left -= count;
        if (left <= 0) return Math.round(Math.exp((bucket + 0.5) * STEP) * 10) / 10;
      }
      return 0;
    };
    return { p50: at(0.5), p95: at(0.95), p99: at(0.99), count: this.count };
  }
}
