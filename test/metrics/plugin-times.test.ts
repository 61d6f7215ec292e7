import t from "tap";
import { PluginTimes } from "../../src/metrics/plugin-times.ts";
import { MemoryLog } from "../support/gateway.ts";

t.test("the duration of phases is reported in seconds, by plugin and phase", async (t) => {
  const faults: string[] = [];
  const times = new PluginTimes(new MemoryLog(), (plugin) => faults.push(plugin));
  times.onDuration("auth", "access", 2);
  times.onDuration("auth", "access", 4);
  times.onDoneFailed("usage");
  const [values = []] = times.json().map((metric) => metric.values);
  t.match(values.slice(-2), [
    { labels: { plugin: "auth", hook: "access" }, value: 0.006 },
    { metricName: "gateway_plugin_seconds_count", value: 2 },
  ]);
  t.same(faults, ["usage"]);
});

t.test("a phase that blocks the event loop is counted, and logged once a minute", async (t) => {
  const log = new MemoryLog();
  let now = 0;
  const times = new PluginTimes(log, undefined, () => now);
  for (const at of [0, 59_999, 60_000, 60_001]) {
    now = at;
    times.onBlocked("judge", "request", 1500.4);
    if (at === 60_001) times.onBlocked("judge", "stage", 51);
  }
  t.same(
    log.lines.map(({ level, fields }) => ({ level, ...fields })),
    [
      { level: "warn", origin: "judge.request", ms: 1500, calls: 1 },
      { level: "warn", origin: "judge.request", ms: 1500, calls: 2 },
      { level: "warn", origin: "judge.stage", ms: 51, calls: 1 },
    ],
  );
  t.match(times.json()[1]?.values, [
    { labels: { plugin: "judge", hook: "request" }, value: 4 },
    { labels: { plugin: "judge", hook: "stage" }, value: 1 },
  ]);
});
