import { AggregatorRegistry } from "prom-client";
import t from "tap";
import type { MetricJson } from "../../src/metrics/families.ts";
import { WorkerTotals } from "../../src/workers/worker-totals.ts";

const metric = (name: string, type: string, value: number): MetricJson =>
  ({ name, type, help: name, aggregator: "sum", values: [{ labels: { of: "a" }, value }] }) as unknown as MetricJson;

const textOf = (all: MetricJson[][]): Promise<string> => AggregatorRegistry.aggregate(all as never).metrics();

t.test("an exited worker's last counts stay in the sum, and its gauges do not", async (t) => {
  const totals = new WorkerTotals<string>();
  for (const worker of ["one", "two", "three"]) totals.add(worker);
  totals.update("one", [metric("spent", "counter", 3), metric("open", "gauge", 7)]);
  totals.update("two", [metric("spent", "counter", 4)]);
  totals.update("two", [metric("spent", "counter", 5)]);
  t.match(await textOf(totals.all), /^spent\{of="a"\} 8$/m);
  for (const worker of ["one", "two", "one"]) totals.finish(worker);
  totals.update("one", [metric("spent", "counter", 100)]);
  totals.update("three", [metric("spent", "counter", 1)]);
  const text = await textOf(totals.all);
  t.match(text, /^spent\{of="a"\} 9$/m);
  t.notMatch(text, /open/);
});

t.test("a report without a metric keeps its last value", async (t) => {
  const totals = new WorkerTotals<string>();
  totals.add("one");
  totals.update("one", [metric("spent", "counter", 3), metric("errors", "counter", 2)]);
  totals.update("one", [metric("spent", "counter", 4)]);
  t.match(await textOf(totals.all), /^errors\{of="a"\} 2$/m);
});
