import t from "tap";
import type { Exchange } from "../../src/core/exchange.ts";
import { ExchangeMetrics } from "../../src/metrics/exchange-metrics.ts";

const target = { provider: { name: "up" }, model: "fine", modelId: "plain" };
const exchange = (more: object = {}): Exchange =>
  ({
    ...{
      protocol: { name: "api" },
      attempts: [],
      outcome: "completed",
      status: 200,
      elapsed: 100,
      bodyWait: 0,
      pieces: 0,
    },
    ...more,
  }) as unknown as Exchange;

const told = (metrics: ExchangeMetrics, name: string) =>
  metrics.json().find((metric) => metric.name === name)?.values ?? [];

t.test("the gateway's own time excludes the client's upload and the time of providers", async (t) => {
  const metrics = new ExchangeMetrics();
  const attempts = [
    { target, dispatchedAt: 60, respondedAt: 160, status: 503 },
    { target, dispatchedAt: 165, respondedAt: 365, status: 200 },
  ];
  metrics.countExchange(exchange({ attempts, bodyWait: 50, streaming: true, firstByte: 367, elapsed: 900 }));
  const sum = told(metrics, "gateway_overhead_seconds").at(-2);
  t.equal(Math.round((sum?.value ?? 0) * 1000), 10 + 5 + 2);
  metrics.countExchange(exchange({ attempts: [{ target, status: 200 }] }));
  const count = told(metrics, "gateway_overhead_seconds").at(-1);
  t.equal(count?.value, 1, "unknown where bodies pass unread");
});

t.test("an answer whose usage could not be read is counted", async (t) => {
  const metrics = new ExchangeMetrics();
  for (const usageError of [undefined, "RangeError: too long", "RangeError: too long"])
    metrics.countExchange(exchange({ attempts: [{ target, status: 200 }], usageError }));
  t.match(told(metrics, "gateway_unread_usage_total"), [{ labels: { api: "api" }, value: 2 }]);
});

t.test("a client that disconnects is counted by the stage of its request", async (t) => {
  const metrics = new ExchangeMetrics();
  const aborted = { outcome: "aborted", status: 499 };
  metrics.countExchange(exchange(aborted));
  metrics.countExchange(exchange({ ...aborted, attempts: [{ target }] }));
  metrics.countExchange(exchange({ ...aborted, attempts: [{ target }], firstByte: 3, status: 200 }));
  t.same(
    told(metrics, "gateway_client_aborts_total").map(({ labels, value }) => [labels["phase"], value]),
    [
      ["request", 1],
      ["waiting", 1],
      ["answer", 1],
    ],
  );
});

t.test(
  "repeated usage counts once, written tokens are added up, and a request that is only explained is not counted",
  async (t) => {
    const metrics = new ExchangeMetrics();
    const usage = { in: { total: 9, write: { "5m": 2, "1h": 3 } }, out: { total: 4 }, raw: undefined };
    const charge = { tokens: 13, cost: 5e9, priced: 5e9, once: "up resp_1", usage };
    const names: string[] = [];
    metrics.onCountedName = (name) => names.push(name);
    for (let i = 0; i < 2; i++) metrics.countExchange(exchange({ attempts: [{ target, status: 200 }], charge }));
    t.same(names, ["up resp_1"], "other processes hear of it");
    metrics.addCountedName("up resp_2");
    metrics.countExchange(exchange({ attempts: [{ target, status: 200 }], charge: { ...charge, once: "up resp_2" } }));
    metrics.countExchange(exchange({ dryRun: { notes: [] }, attempts: [{ target, status: 200 }], charge }));
    t.same(
      told(metrics, "gateway_tokens_total").map(({ labels, value }) => [labels["type"], value]),
      [
        ["in", 9],
        ["out", 4],
        ["cache_write", 5],
      ],
    );
    t.same(told(metrics, "gateway_upstream_cost_usd_total"), [{ labels: { target: "up:fine" }, value: 5 }]);
    t.equal(told(metrics, "gateway_requests_total")[0]?.value, 3);
  },
);

t.test("200 keys have a label of their own", async (t) => {
  const metrics = new ExchangeMetrics();
  const charge = { tokens: 1, cost: 1e9, priced: 1e9 };
  for (let i = 0; i < 203; i++) metrics.countExchange(exchange({ caller: { id: `${i}`, name: `key-${i}` }, charge }));
  const keys = told(metrics, "gateway_cost_usd_total");
  t.equal(keys.length, 201);
  t.match(keys.at(-1), { labels: { key: "other" }, value: 3 });
});

t.test("refusals by limits, plugin errors and stores that do not respond are distinguished", async (t) => {
  const metrics = new ExchangeMetrics();
  for (const error of [
    { code: "rate_limit_exceeded", limit: "tpm" },
    { code: "overloaded" },
    { code: "plugin_failed", origin: "odd.route" },
    { code: "store_unavailable", store: "keys" },
  ])
    metrics.countExchange(exchange({ outcome: "rejected", status: 500, error }));
  const counted = (name: string) => told(metrics, name).filter(({ value }) => value > 0);
  t.same(
    counted("gateway_limited_total").map(({ labels }) => labels["kind"]),
    ["tpm", "overload"],
  );
  t.match(told(metrics, "gateway_plugin_errors_total"), [{ labels: { plugin: "odd" }, value: 1 }]);
  t.match(counted("gateway_store_errors_total"), [{ labels: { store: "keys" }, value: 1 }]);
});

t.test("an attempt counts by its status, or by its error before or in place of one", async (t) => {
  const metrics = new ExchangeMetrics();
  const error = { code: "upstream_truncated" };
  for (const attempt of [{ status: 200 }, { status: 200, error }, { status: 503, error }, { error }])
    metrics.countExchange(exchange({ attempts: [{ target, ...attempt }] }));
  t.same(
    told(metrics, "gateway_attempts_total").map(({ labels, value }) => [labels["reason"], value]),
    [
      ["200", 2],
      ["upstream_truncated", 2],
    ],
  );
});
