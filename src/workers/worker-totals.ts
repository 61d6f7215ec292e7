import { aggregateMetrics, type MetricJson } from "../metrics/families.ts";

/**
 * Counters and histograms of all workers since the primary's start. A worker that has ended keeps its share, so that no sum ever
 * falls: Prometheus reads a fall as a restart from 0 and counts the rest again.
 *
 * @typeParam Worker identifies a worker
 */
export class WorkerTotals<Worker> {
  /** What each worker last reported, by metric. */
  private readonly latest = new Map<Worker, Map<string, MetricJson>>();
  private endedSums: MetricJson[] = [];

  /** Starts to count a worker. */
  add(worker: Worker): void {
    this.latest.set(worker, new Map());
  }

  /** Remembers a report of a worker; metrics that it does not contain keep their last values. */
  update(worker: Worker, metrics: readonly MetricJson[]): void {
    const known = this.latest.get(worker);
    for (const metric of metrics) if (isCount(metric)) known?.set(metric.name, metric);
  }

  /** Adds a worker to those that have ended. Called when no further message can come from it. */
  finish(worker: Worker): void {
    const known = this.latest.get(worker);
    if (!known) return;
    this.latest.delete(worker);
    const sum = aggregateMetrics([this.endedSums, [...known.values()]]);
    this.endedSums = sum.getMetricsAsArray() as MetricJson[];
  }

  /** Returns the counts to add up: those of each worker, and those of all that have ended. */
  get all(): MetricJson[][] {
    return [this.endedSums, ...Array.from(this.latest.values(), (known) => [...known.values()])];
  }
}

/** Reports whether a metric only grows. */
export const isCount = ({ type }: MetricJson): boolean => COUNTS.has(String(type));

const COUNTS = new Set(["counter", "histogram"]);
