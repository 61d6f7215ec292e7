import { hash } from "node:crypto";
import { type IntervalHistogram, monitorEventLoopDelay } from "node:perf_hooks";
import type { Registry } from "prom-client";
import { YamlSource } from "../config/positions.ts";
import type { Log } from "../core/log.ts";
import { Marketplace } from "../core/marketplace.ts";
import { type QuestionHandlers, question } from "../core/peers.ts";
import { withTimeout } from "../core/timeout.ts";
import type { RunningExchange } from "../downstream/running-exchanges.ts";
import type { Generation } from "../generation.ts";
import type { Ledger } from "../store/ledger.ts";
import { ProviderRates } from "../upstream/provider-rates.ts";
import { omit } from "../wire/values.ts";
import { ExchangeMetrics } from "./exchange-metrics.ts";
import { type MetricJson, promClient, scrapedMetric } from "./families.ts";
import { PluginTimes } from "./plugin-times.ts";

/** The metrics of one process. */
export const PROCESS_METRICS = question<null, MetricJson[]>("metrics");

/** Milliseconds between measurements of the event loop's delay. */
const LAG_RESOLUTION = 20;
/** Milliseconds to wait for the state of budgets: a scrape does not wait for a store that is down. */
const STATUS_TIMEOUT = 1000;

/** Sums over `nodejs_active_…{type}`, gauges with names of counters, of which `promtool check metrics` complains. */
const MISNAMED_GAUGES = ["handles", "requests", "resources"].map((what) => `nodejs_active_${what}_total`);

/** The parts of a gateway in this process that are measured. */
export interface MeasuredGateway {
  readonly generation: Generation;
  readonly generations: readonly Generation[];
  readonly exchanges: readonly RunningExchange[];
}

/** The metrics of this process: counters kept for its lifetime, and gauges read at each scrape. */
export class ProcessMetrics {
  readonly exchanges = new ExchangeMetrics();
  readonly pluginTimes: PluginTimes;
  readonly providerRates = new ProviderRates();
  /** Created at the first scrape, so that unscraped gateways pay nothing. */
  private instruments: { readonly registry: Registry; readonly lag: IntervalHistogram } | undefined;

  constructor(log: Pick<Log, "warn">) {
    this.pluginTimes = new PluginTimes(log, (plugin) => this.exchanges.countPluginFailure(plugin));
  }

  /** The counters and histograms that can be read without waiting. */
  get counters(): MetricJson[] {
    return [...this.exchanges.json(), ...this.pluginTimes.json()];
  }

  async json(gateway: MeasuredGateway, ledger: Ledger): Promise<MetricJson[]> {
    this.instruments ??= createInstruments();
    const { registry, lag } = this.instruments;
    const late = Math.max(0, lag.percentile(99) / 1e6 - LAG_RESOLUTION);
    lag.reset();
    const { generation } = gateway;
    const { limiter } = generation;
    const awaited = [
      ...(await this.budgetMetrics(generation)),
      ...(await storeMetrics(ledger, limiter.errors)),
      ...((await registry.getMetricsAsJSON()) as MetricJson[]),
    ];
    return [
      // Read after the waiting: a primary must not get older counts than an earlier report contained.
      ...this.exchanges.json(generation.plugins.keys()),
      ...this.pluginTimes.json(),
      ...activityMetrics(gateway),
      ...healthMetrics(generation),
      scrapedMetric(
        "gateway_upstream_ratelimit_remaining",
        this.providerRates.all.map(({ target, kind, remaining }) => [remaining, target, kind]),
      ),
      scrapedMetric("gateway_limiter_degraded", [[limiter.state === "ok" ? 0 : 1]]),
      scrapedMetric("gateway_eventloop_lag_seconds", [[late / 1000]]),
      ...awaited,
    ];
  }

  private async budgetMetrics(generation: Generation): Promise<MetricJson[]> {
    const { callers } = this.exchanges;
    const names = new Map(callers.map(({ id, name }) => [id, name]));
    // Without an answer in time these metrics are omitted.
    const all = await withTimeout(STATUS_TIMEOUT, generation.limitStatuses(callers)).catch(() => []);
    const rows = all.flatMap(({ kind, name, budgets }) =>
      budgets.map(({ limit, remaining, per, soft }) => {
        const labels = [kind, kind === "key" ? (names.get(name) ?? name) : name, per, String(soft)] as const;
        return { limit: [limit / 1e9, ...labels] as const, remaining: [remaining / 1e9, ...labels] as const };
      }),
    );
    return [
      scrapedMetric(
        "gateway_budget_remaining_usd",
        rows.map(({ remaining }) => remaining),
      ),
      scrapedMetric(
        "gateway_budget_limit_usd",
        rows.map(({ limit }) => limit),
      ),
    ];
  }
}

function createInstruments() {
  const { collectDefaultMetrics, Registry } = promClient();
  const registry = new Registry();
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: LAG_RESOLUTION });
  for (const name of MISNAMED_GAUGES) registry.removeSingleMetric(name);
  const lag = monitorEventLoopDelay({ resolution: LAG_RESOLUTION });
  lag.enable();
  return { registry, lag };
}

/** Returns metrics of what is running. */
function activityMetrics({ exchanges, generations, generation }: MeasuredGateway): MetricJson[] {
  const apis = new Map<string, number>();
  let streams = 0;
  for (const { exchange } of exchanges) {
    const { name } = exchange.protocol;
    apis.set(name, (apis.get(name) ?? 0) + 1);
    if (exchange.streaming) streams++;
  }
  // A protocol without requests is reported at 0, so that its gauge does not keep the last value.
  for (const { protocol } of generation.paths.mounts)
    if (protocol) apis.set(protocol.name, apis.get(protocol.name) ?? 0);
  return [
    scrapedMetric(
      "gateway_inflight",
      Array.from(apis, ([api, count]) => [count, api]),
    ),
    scrapedMetric("gateway_streams_open", [[streams]]),
    scrapedMetric("gateway_generations", [[generations.length]]),
  ];
}

/** Returns metrics of the health of targets and credentials. */
function healthMetrics({ marketplace, upstreams }: Generation): MetricJson[] {
  const targets = new Map(
    marketplace.models.flatMap((model) => model.targets.map((target) => [Marketplace.nameOf(target), target])),
  );
  const reports = Array.from(targets, ([name, target]) => ({ name, target, ...upstreams.health.report(target) }));
  const credentials = new Map<string, { provider: string; label: string; up: number }>();
  for (const { target, credentials: shown } of reports)
    for (const { label, state } of shown) {
      const provider = target.provider.name;
      const known = credentials.get(`${provider} ${label}`);
      // A credential that is refused for one model only can still be used.
      credentials.set(`${provider} ${label}`, {
        provider,
        label,
        up: Math.max(known?.up ?? 0, state === "refused" ? 0 : 1),
      });
    }
  return [
    scrapedMetric(
      "gateway_target_up",
      reports.map(({ name, state }) => [state === "closed" ? 1 : 0, name]),
    ),
    scrapedMetric(
      "gateway_target_cooldown_seconds",
      reports.map(({ name, remaining }) => [remaining / 1000, name]),
    ),
    scrapedMetric(
      "gateway_credential_up",
      Array.from(credentials.values(), ({ provider, label, up }) => [up, provider, label]),
    ),
  ];
}

async function storeMetrics(ledger: Ledger, limiterErrors: number): Promise<MetricJson[]> {
  // The ledger's thread may have died.
  const { lag, oldest, bytes, errors } = await ledger
    .backlog()
    .catch(() => ({ lag: 0, oldest: 0, bytes: 0, errors: 1 }));
  return [
    scrapedMetric("gateway_ledger_lag_seconds", [[lag]]),
    scrapedMetric("gateway_journal_oldest_seconds", [[oldest]]),
    scrapedMetric("gateway_journal_bytes", [[bytes]]),
    scrapedMetric("gateway_journal_unwritten_lines", [[ledger.unwritten?.lines ?? 0]]),
    scrapedMetric("gateway_store_errors_total", [
      [errors, "ledger"],
      [limiterErrors, "limits"],
    ]),
  ];
}

/** The parts of a valid gateway.yaml that can belong to one gateway alone. */
interface FileParts {
  readonly listen?: unknown;
  readonly admin?: string | { readonly listen?: string } | null;
  readonly store?: { readonly ledger?: string; readonly journal?: string } | null;
}

/** Identifies the text of a gateway.yaml without revealing it. */
export const configHash = (text: string): string => hash("sha256", text).slice(0, 32);

/**
 * Identifies what gateways with one configuration have in common: gateway.yaml without the addresses on which one listens, and
 * without its own files.
 */
export function commonConfigHash(text: string): string {
  // As the file is loaded: with merged sections, and without those that only serve for merging.
  const values = Object.entries(new YamlSource("", text).values as FileParts).filter(
    ([name]) => !name.startsWith("x-"),
  );
  const { admin, store, ...common }: FileParts = Object.fromEntries(values);
  const { ledger, ...rest } = store ?? {};
  const shared = ledger?.startsWith("sqlite:") ? {} : { ledger };
  const parts = {
    ...omit(common, "listen"),
    admin: omit(typeof admin === "object" ? (admin ?? {}) : {}, "listen"),
    store: { ...omit(rest, "journal"), ...shared },
  };
  return configHash(JSON.stringify(parts));
}

/** Answers metrics questions for this process. */
export function answerMetrics(answers: QuestionHandlers, json: () => Promise<MetricJson[]>): void {
  answers.set(PROCESS_METRICS, json);
}
