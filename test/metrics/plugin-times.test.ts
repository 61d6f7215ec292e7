import t from "tap";
import { PluginTimes } from "../../src/metrics/plugin-times.ts";

t.test("what phases take is told in seconds, by plugin and phase", async (t) => {
  const faults: string[] = [];
  const times = new PluginTimes((plugin) => faults.push(plugin));
  times.took("auth", "access", 2);
  times.took("auth", "access", 4);
  times.failed("usage");
  const { values } = times.json();
  t.match(values.slice(-2), [
    { labels: { plugin: "auth", hook: "access" }, value: 0.006 },
    { metricName: "gateway_plugin_seconds_count", value: 2 },
  ]);
  t.same(faults, ["usage"]);
});
