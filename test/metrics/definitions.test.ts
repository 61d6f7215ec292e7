import t from "tap";
import { REFUSALS } from "../../src/core/errors.ts";
import { LABELS, METRICS, type MetricDefinition } from "../../src/metrics/definitions.ts";

const ALL: [string, MetricDefinition][] = Object.entries(METRICS);

t.test("names follow Prometheus' conventions, and every label is documented", async (t) => {
  for (const [name, { type, labels, help, buckets }] of ALL) {
    t.match(name, /^gateway_[a-z_]+$/);
    t.equal(name.endsWith("_total"), type === "counter", name);
    t.match(help, /\.$/, name);
    for (const label of labels) t.ok(LABELS[label], `${name} ${label}`);
    t.equal(buckets !== undefined, type === "histogram", name);
    if (buckets)
      t.same(
        buckets,
        buckets.toSorted((a, b) => a - b),
        name,
      );
  }
  const used = new Set(ALL.flatMap(([, { labels }]) => labels));
  t.same(
    Object.keys(LABELS).filter((label) => !used.has(label)),
    [],
  );
});

t.test("label values known at the start are few, unique, and of the only label", async (t) => {
  for (const [name, { type, labels, initialValues }] of ALL) {
    if (!initialValues) continue;
    t.same([type, labels.length], ["counter", 1], name);
    t.ok(initialValues.length <= 20 && new Set(initialValues).size === initialValues.length, name);
  }
  const own = ["too_many_connections", "too_many_pipelined", "wrong_admin_token"];
  const codes: readonly string[] = [...Object.keys(REFUSALS), ...own];
  for (const reason of METRICS.gateway_refused_total.initialValues ?? []) t.ok(codes.includes(reason), reason);
});

t.test("no label has a value that a client can choose", async (t) => {
  const labels = new Set(ALL.flatMap(([, { labels }]) => labels));
  for (const free of ["path", "address", "key_id", "user", "id", "url"]) t.notOk(labels.has(free), free);
});
