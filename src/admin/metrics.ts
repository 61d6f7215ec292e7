import { AggregatorRegistry } from "prom-client";
import { current, type MetricJson } from "../metrics/families.ts";
import { hashOf } from "../metrics/process-metrics.ts";
import { UNKNOWN } from "./readiness.ts";
import type { AdminSubject, WorkerCounts } from "./served.ts";

/** Returns all metrics in Prometheus' text format, aggregated over several processes. */
export async function metricsText(
  subject: AdminSubject,
  alerts: { readonly posted: number; readonly failed: number } = { posted: 0, failed: 0 },
): Promise<{ type: string; text: string }> {
  const all = await subject.askMetrics();
  const registry = AggregatorRegistry.aggregate([...all, own(subject), [posted(alerts)]] as never);
  return { type: registry.contentType, text: await registry.metrics() };
}

const posted = ({ posted, failed }: { readonly posted: number; readonly failed: number }): MetricJson =>
  current("gateway_alerts_total", [
    [posted, "posted"],
    [failed, "failed"],
  ]);

/** Returns the metrics that only this process knows, and which apply to all. */
function own(subject: AdminSubject): MetricJson[] {
  const { config, reloads, workerCounts } = subject;
  const of = (count: keyof WorkerCounts): [number][] => (workerCounts ? [[workerCounts[count]]] : []);
  const { store } = subject.readiness().parts;
  const off = config.providers.filter((provider) => provider.off !== undefined);
  return [
    current("gateway_config_info", [[1, hashOf(config.text)]]),
    current("gateway_config_reload_failed", [[reloads.last?.problem === undefined ? 0 : 1]]),
    current("gateway_config_reloads_total", [[reloads.succeeded]]),
    current("gateway_config_reloads_failed_total", [[reloads.failed]]),
    current("gateway_store_waiting", store === UNKNOWN ? [] : [[store === "ok" ? 0 : 1]]),
    current("gateway_providers_off", [[off.length]]),
    current("gateway_workers_wanted", of("wanted")),
    current("gateway_workers_up", of("up")),
    current("gateway_worker_deaths_total", of("deaths")),
  ];
}
