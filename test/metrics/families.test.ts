import { execFileSync } from "node:child_process";
import t from "tap";
import { aggregateMetrics, CounterFamily, HistogramFamily, scrapedMetric } from "../../src/metrics/families.ts";

t.test("a histogram's bucket counts all that is smaller, and includes its upper bound", async (t) => {
  const family = new HistogramFamily("gateway_ttft_seconds");
  const series = family.labels("fast", "up:fine");
  for (const value of [0.05, 0.06, 400]) series.observe(value);
  t.equal(family.labels("fast", "up:fine"), series);
  const { values, type, aggregator } = family.json();
  t.same([type, aggregator], ["histogram", "sum"]);
  const bucket = (le: string) => values.find(({ labels }) => labels["le"] === le)?.value;
  t.same([bucket("0.05"), bucket("0.1"), bucket("300"), bucket("+Inf")], [1, 2, 2, 3]);
  t.match(values.slice(-2), [
    { metricName: "gateway_ttft_seconds_sum", value: 400.11 },
    { metricName: "gateway_ttft_seconds_count", labels: { model: "fast", target: "up:fine" }, value: 3 },
  ]);
});

t.test("a metric has 5,000 series at most, and further ones are one", async (t) => {
  const family = new CounterFamily("gateway_fallbacks_total");
  for (let i = 0; i < 5010; i++) family.labels(String(i), "to").value++;
  const { values } = family.json();
  t.equal(values.length, 5001);
  t.match(values.at(-1), { labels: { from: "other", to: "other" }, value: 10 });
});

t.test("a counter without labels is present before anything was counted", async (t) => {
  t.same(new CounterFamily("gateway_estimated_usage_total").json().values, [{ labels: {}, value: 0 }]);
});

t.test(
  "a counter whose label has known values has each of them from the start, and others once they occur",
  async (t) => {
    const family = new CounterFamily("gateway_client_aborts_total");
    family.labels("answer").value++;
    family.labels("behind it").value++;
    t.same(
      family.json().values.map(({ labels, value }) => [labels["phase"], value]),
      [
        ["request", 0],
        ["waiting", 0],
        ["answer", 1],
        ["behind it", 1],
      ],
    );
  },
);

t.test("a gauge defines how the values of several processes are combined", async (t) => {
  t.match(scrapedMetric("gateway_target_up", [[0, "up:fine"]]), {
    type: "gauge",
    aggregator: "min",
    values: [{ labels: { target: "up:fine" }, value: 0 }],
  });
});

t.test("prom-client is loaded by the first sum of metrics, and not by a gateway's start", async (t) => {
  const program = `
    import { createRequire } from "node:module";
    const { cache } = createRequire(import.meta.url);
    const isLoaded = () => Object.keys(cache).some((file) => file.includes("/prom-client/"));
    await import("./src/cli/run.ts");
    const before = isLoaded();
    (await import("./src/metrics/families.ts")).aggregateMetrics([]);
    console.log(before, isLoaded());`;
  const args = ["--import", "./src/loader/register.js", "--input-type=module", "--eval", program];
  t.equal(execFileSync(process.execPath, args, { encoding: "utf8" }), "false true\n");
});

t.test("configurations are not added up over workers, each of which has one at least", async (t) => {
  const workers = [1, 2, 1].map((loaded) => [scrapedMetric("gateway_generations", [[loaded]])]);
  t.match(await aggregateMetrics(workers).metrics(), /^gateway_generations 2$/m);
});
