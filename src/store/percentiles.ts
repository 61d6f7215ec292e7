/** Half of the values are below `p50`, and so on. */
export interface PercentileFigures {
  readonly p50: number;
  readonly p95: number;
  readonly p99: number;
  readonly count: number;
}

/** The logarithm of the ratio between the bounds of a bucket. */
const STEP = Math.log(1.12);
/** The buckets of the smallest and largest values, 0.001 and 10 billion: values beyond count as these. */
const [MIN_BUCKET, MAX_BUCKET] = [0.001, 1e10].map((value) => Math.floor(Math.log(value) / STEP)) as [number, number];

/** Percentiles of any number of positive values, within 6 %, in little memory. */
export class Percentiles {
  private readonly buckets = new Uint32Array(MAX_BUCKET - MIN_BUCKET + 1);
  private count = 0;

  add(value: number): void {
    if (!(value > 0)) return;
    const bucket = Math.max(MIN_BUCKET, Math.min(MAX_BUCKET, Math.floor(Math.log(value) / STEP)));
    (this.buckets[bucket - MIN_BUCKET] as number)++;
    this.count++;
  }

  /** Undefined without values. */
  get figures(): PercentileFigures | undefined {
    if (this.count === 0) return undefined;
    const at = (share: number) => {
      let left = Math.ceil(this.count * share);
      let bucket = MIN_BUCKET;
      for (const count of this.buckets) {
        left -= count;
        if (left <= 0) break;
        bucket++;
      }
      return Math.round(Math.exp((bucket + 0.5) * STEP) * 10) / 10;
    };
    return { p50: at(0.5), p95: at(0.95), p99: at(0.99), count: this.count };
  }
}
