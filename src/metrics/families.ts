import type { MetricObjectWithValues, MetricValue } from "prom-client";
import { METRICS, type MetricDefinition, type MetricName } from "./definitions.ts";

/** A metric with its values, in the form that processes exchange and prom-client aggregates and formats. */
export type MetricJson = MetricObjectWithValues<MetricValue<string>>;
type Labels = Record<string, string>;

/** Limit of series per family; further ones share a series whose labels are `other`. */
const MOST = 5000;

const definitionOf = (name: MetricName): MetricDefinition => METRICS[name];

function json(name: MetricName, values: MetricJson["values"]): MetricJson {
  const { type, help, across = "sum" } = definitionOf(name);
  return { name, help, type, values, aggregator: across } as unknown as MetricJson;
}

/** The series of a metric. Callers keep a series once found, so that counting changes only a number. */
class Family<Series> {
  private readonly series = new Map<string, { labels: Labels; series: Series }>();

  constructor(
    readonly name: MetricName,
    private readonly make: () => Series,
  ) {}

  /** @param values of the labels, in the definition's order */
  of(...values: string[]): Series {
    const key = values.join("\0");
    const known = this.series.get(key);
    if (known) return known.series;
    if (values.length > 0 && this.series.size >= MOST && values.some((value) => value !== "other"))
      return this.of(...values.map(() => "other"));
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

/** Returns the value of a key in a map, creating it where there is none. */
export function under<Key, Value>(map: Map<Key, Value>, key: Key, make: () => Value): Value {
  const known = map.get(key);
  if (known !== undefined) return known;
  const made = make();
  map.set(key, made);
  return made;
}

/** A counter, which only grows. */
export class Count {
  value = 0;
}

export class CounterFamily extends Family<Count> {
  constructor(name: MetricName) {
    super(name, () => new Count());
    const { labels, known = [] } = definitionOf(name);
    if (labels.length === 0) this.of();
    for (const value of known) this.of(value);
  }

  json(): MetricJson {
    return json(
      this.name,
      Array.from(this.all(), ({ labels, series }) => ({ labels, value: series.value })),
    );
  }
}

/** Counts of values by bucket. */
export class Distribution {
  readonly counts: Float64Array;
  sum = 0;

  constructor(private readonly ends: readonly number[]) {
    this.counts = new Float64Array(ends.length + 1);
  }

  observe(value: number): void {
    const { ends, counts } = this;
    let at = 0;
    while (at < ends.length && value > (ends[at] as number)) at++;
    counts[at] = (counts[at] as number) + 1;
    this.sum += value;
  }
}

export class HistogramFamily extends Family<Distribution> {
  private readonly ends: readonly number[];

  constructor(name: MetricName) {
    const { buckets = [] } = definitionOf(name);
    super(name, () => new Distribution(buckets));
    this.ends = buckets;
  }

  json(): MetricJson {
    const { name, ends } = this;
    const values = Array.from(this.all()).flatMap(({ labels, series }) => {
      let count = 0;
      const buckets = Array.from(series.counts, (own, at) => {
        count += own;
        const le = at < ends.length ? String(ends[at]) : "+Inf";
        return { metricName: `${name}_bucket`, labels: { ...labels, le }, value: count };
      });
      return [
        ...buckets,
        { metricName: `${name}_sum`, labels, value: series.sum },
        { metricName: `${name}_count`, labels, value: count },
      ];
    });
    return json(name, values);
  }
}

/** Returns a metric whose values are read at the scrape. @param values each with its labels, in the definition's order */
export function current(name: MetricName, values: Iterable<readonly [value: number, ...labels: string[]]>): MetricJson {
  const { labels: names } = definitionOf(name);
  const found = Array.from(values, ([value, ...labels]) => ({
    labels: Object.fromEntries(names.map((label, i) => [label, labels[i] ?? ""])),
    value,
  }));
  return json(name, found);
}
