import type { Config } from "../config/types.ts";
import { aggregateMetrics, type MetricJson, scrapedMetric } from "../metrics/families.ts";
import { commonConfigHash } from "../metrics/process-metrics.ts";
import type { AdminGateway, WorkerCounts } from "./admin-gateway.ts";
import { UNKNOWN_STATE } from "./readiness.ts";

/** Returns all metrics in Prometheus' text format, aggregated over several processes. */
export async function metricsText(
  gateway: AdminGateway,
  alerts: { readonly posted: number; readonly failed: number } = { posted: 0, failed: 0 },
  wrongTokens = 0,
): Promise<{ type: string; text: string }> {
  const all = await gateway.askMetrics();
  const own = [alertsMetric(alerts), scrapedMetric("gateway_refused_total", [[wrongTokens, "wrong_admin_token"]])];
  const registry = aggregateMetrics([...all, ownMetrics(gateway), own]);
  return { type: registry.contentType, text: await registry.metrics() };
}

const alertsMetric = ({ posted, failed }: { readonly posted: number; readonly failed: number }): MetricJson =>
  scrapedMetric("gateway_alerts_total", [
    [posted, "posted"],
    [failed, "failed"],
  ]);

/** Scrapes parse no file again. */
const hashes = new WeakMap<object, string>();

function cachedHash(config: Pick<Config, "text">): string {
  const hash = hashes.get(config) ?? commonConfigHash(config.text);
  hashes.set(config, hash);
  return hash;
}

/** Returns the metrics that only this process knows, and which apply to all. */
function ownMetrics(gateway: AdminGateway): MetricJson[] {
  const { config, reloads, workerCounts } = gateway;
  const of = (count: keyof WorkerCounts): [number][] => (workerCounts ? [[workerCounts[count]]] : []);
  const { store } = gateway.readiness().parts;
  const off = config.providers.filter((provider) => provider.off !== undefined);
  return [
    scrapedMetric("gateway_config_info", [[1, cachedHash(config)]]),
    scrapedMetric("gateway_config_reload_failed", [[reloads.last?.problem === undefined ? 0 : 1]]),
    scrapedMetric("gateway_config_reloads_total", [[reloads.succeeded]]),
    scrapedMetric("gateway_config_reloads_failed_total", [[reloads.failed]]),
    scrapedMetric("gateway_store_waiting", store === UNKNOWN_STATE ? [] : [[store === "ok" ? 0 : 1]]),
    scrapedMetric("gateway_providers_off", [[off.length]]),
    scrapedMetric("gateway_workers_wanted", of("wanted")),
    scrapedMetric("gateway_workers_up", of("up")),
    scrapedMetric("gateway_worker_deaths_total", of("deaths")),
  ];
}
