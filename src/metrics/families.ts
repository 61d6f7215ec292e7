import { createRequire } from "node:module";
import type * as PromClient from "prom-client";
import type { MetricObjectWithValues, MetricValue, Registry } from "prom-client";
import { METRICS, type MetricDefinition, type MetricName } from "./definitions.ts";

/** A metric with its values, in the form that processes exchange and prom-client aggregates and formats. */
export type MetricJson = MetricObjectWithValues<MetricValue<string>>;
type Labels = Record<string, string>;

const require = createRequire(import.meta.url);

/** Limit of series per family; further ones share a series whose labels are `other`. */
const MAX_SERIES = 5000;

const definitionOf = (name: MetricName): MetricDefinition => METRICS[name];

function metricJson(name: MetricName, values: MetricJson["values"]): MetricJson {
  const { type, help, aggregation = "sum" } = definitionOf(name);
  return { name, help, type, values, aggregator: aggregation } as unknown as MetricJson;
}

/** Returns prom-client, loaded at the first call: it takes a tenth of the CPU of a start, and a gateway may never be scraped. */
export const promClient = (): typeof PromClient => require("prom-client");

/** Adds up the metrics of several processes. prom-client's types ask for its own objects, of which it reads only the JSON. */
export const aggregateMetrics = (metrics: readonly (readonly MetricJson[])[]): Registry =>
  promClient().AggregatorRegistry.aggregate(metrics as never);

/** The series of a metric. Callers keep a series once found, so that counting changes only a number. */
class MetricFamily<Series> {
  private readonly series = new Map<string, { labels: Labels; series: Series }>();

  constructor(
    readonly name: MetricName,
    private readonly make: () => Series,
  ) {}

  /** @param values of the labels, in the definition's order */
  labels(...values: string[]): Series {
    const key = values.join("\0");
    const known = this.series.get(key);
    if (known) return known.series;
    if (values.length > 0 && this.series.size >= MAX_SERIES && values.some((value) => value !== "other"))
      return this.labels(...values.map(() => "other"));
    const { labels: names } = definitionOf(this.name);
    const labels = Object.fromEntries(names.map((name, i) => [name, values[i] ?? ""]));
    const series = this.make();
    this.series.set(key, { labels, series });
    return series;
  }

  protected all(): Iterable<{ labels: Labels; series: Series }> {
    return this.series.values();
  }
}

/** A counter, which only grows. */
export class CounterSeries {
  value = 0;
}

/** A counter for each combination of labels; those without labels, and initial values, exist from the start. */
export class CounterFamily extends MetricFamily<CounterSeries> {
  constructor(name: MetricName) {
    super(name, () => new CounterSeries());
    const { labels, initialValues = [] } = definitionOf(name);
    if (labels.length === 0) this.labels();
    for (const value of initialValues) this.labels(value);
  }

  json(): MetricJson {
    return metricJson(
      this.name,
      Array.from(this.all(), ({ labels, series }) => ({ labels, value: series.value })),
    );
  }
}

/** Counts of values by bucket. */
export class HistogramSeries {
  readonly counts: Float64Array;
  sum = 0;

  constructor(private readonly bounds: readonly number[]) {
    this.counts = new Float64Array(bounds.length + 1);
  }

  observe(value: number): void {
    const { bounds, counts } = this;
    let at = 0;
    while (at < bounds.length && value > (bounds[at] as number)) at++;
    counts[at] = (counts[at] as number) + 1;
    this.sum += value;
  }
}

/** A histogram for each combination of labels. */
export class HistogramFamily extends MetricFamily<HistogramSeries> {
  private readonly bounds: readonly number[];

  constructor(name: MetricName) {
    const { buckets = [] } = definitionOf(name);
    super(name, () => new HistogramSeries(buckets));
    this.bounds = buckets;
  }

  json(): MetricJson {
    const { name, bounds } = this;
    const values = Array.from(this.all()).flatMap(({ labels, series }) => {
      let count = 0;
      const buckets = Array.from(series.counts, (own, at) => {
        count += own;
        const le = at < bounds.length ? String(bounds[at]) : "+Inf";
        return { metricName: `${name}_bucket`, labels: { ...labels, le }, value: count };
      });
      return [
        ...buckets,
        { metricName: `${name}_sum`, labels, value: series.sum },
        { metricName: `${name}_count`, labels, value: count },
      ];
    });
    return metricJson(name, values);
  }
}

/** Returns a metric whose values are read at the scrape. @param values each with its labels, in the definition's order */
export function scrapedMetric(
  name: MetricName,
  values: Iterable<readonly [value: number, ...labels: string[]]>,
): MetricJson {
  const { labels: names } = definitionOf(name);
  const found = Array.from(values, ([value, ...labels]) => ({
    labels: Object.fromEntries(names.map((label, i) => [label, labels[i] ?? ""])),
    value,
  }));
  return metricJson(name, found);
}
