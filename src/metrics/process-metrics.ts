import { createHash } from "node:crypto";
import { type IntervalHistogram, monitorEventLoopDelay } from "node:perf_hooks";
import { collectDefaultMetrics, Registry } from "prom-client";
import type { Exchange } from "../core/exchange.ts";
import { inTime } from "../core/in-time.ts";
import type { Log } from "../core/log.ts";
import { Marketplace } from "../core/marketplace.ts";
import { type Answers, question } from "../core/peers.ts";
import type { RunningExchange } from "../downstream/server.ts";
import type { Generation } from "../generation.ts";
import type { Ledger } from "../store/ledger.ts";
import { ProviderRates } from "../upstream/provider-rates.ts";
import { ExchangeMetrics } from "./exchange-metrics.ts";
import { current, type MetricJson } from "./families.ts";
import { PluginTimes } from "./plugin-times.ts";

/** The metrics of one process. */
export const PROCESS_METRICS = question<null, MetricJson[]>("metrics");

/** Milliseconds between two looks at how late the event loop is. */
const LOOK = 20;
/** Milliseconds for how budgets stand: who scrapes does not wait for a store that is down. */
const PATIENCE = 1000;

/** A gateway in this process, as far as it is looked at. */
export interface MeasuredGateway {
  readonly generation: Generation;
  readonly generations: readonly Generation[];
  readonly exchanges: readonly RunningExchange[];
}

/** What is counted in this process for as long as it lives, and what is looked up when somebody asks. */
export class ProcessMetrics {
  private readonly exchanges = new ExchangeMetrics();
  readonly times: PluginTimes;
  readonly rates = new ProviderRates();
  /** From the first question on: nobody pays for what nobody asks. */
  private asked: { readonly registry: Registry; readonly lag: IntervalHistogram } | undefined;

  constructor(log: Pick<Log, "warn">) {
    this.times = new PluginTimes(log, (plugin) => this.exchanges.pluginFailed(plugin));
  }

  /** An exchange has ended. */
  ended(exchange: Exchange): void {
    this.exchanges.ended(exchange);
  }

  /** A request was refused before it became one. */
  refused(code: string): void {
    this.exchanges.refused(code);
  }

  /** A browser's preflight was answered. */
  preflight(): void {
    this.exchanges.preflight();
  }

  async json(gateway: MeasuredGateway, ledger: Ledger): Promise<MetricJson[]> {
    this.asked ??= observed();
    const { registry, lag } = this.asked;
    const late = Math.max(0, lag.percentile(99) / 1e6 - LOOK);
    lag.reset();
    const { generation } = gateway;
    const { limiter } = generation;
    return [
      ...this.exchanges.json(generation.plugins.keys()),
      ...this.times.json(),
      ...running(gateway),
      ...health(generation),
      current(
        "gateway_upstream_ratelimit_remaining",
        this.rates.all.map(({ target, kind, left }) => [left, target, kind]),
      ),
      ...(await this.budgets(generation)),
      current("gateway_limiter_degraded", [[limiter.state === "ok" ? 0 : 1]]),
      ...(await stores(ledger, limiter.errors)),
      current("gateway_eventloop_lag_seconds", [[late / 1000]]),
      ...((await registry.getMetricsAsJSON()) as MetricJson[]),
    ];
  }

  private async budgets(generation: Generation): Promise<MetricJson[]> {
    const callers = [...this.exchanges.callers];
    const names = new Map(callers.map(({ id, name }) => [id, name]));
    // Where nobody can say how they stand there is nothing to tell.
    const all = await inTime(PATIENCE, generation.standings(callers)).catch(() => []);
    const rows = all.flatMap(({ kind, name, budgets }) =>
      budgets.map(({ limit, left, per }) => {
        const labels = [kind, kind === "key" ? (names.get(name) ?? name) : name, per] as const;
        return { limit: [limit / 1e9, ...labels] as const, left: [left / 1e9, ...labels] as const };
      }),
    );
    return [
      current(
        "gateway_budget_remaining_usd",
        rows.map(({ left }) => left),
      ),
      current(
        "gateway_budget_limit_usd",
        rows.map(({ limit }) => limit),
      ),
    ];
  }
}

function observed() {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: LOOK });
  const lag = monitorEventLoopDelay({ resolution: LOOK });
  lag.enable();
  return { registry, lag };
}

/** What runs. */
function running({ exchanges, generations, generation }: MeasuredGateway): MetricJson[] {
  const apis = new Map<string, number>();
  let streams = 0;
  for (const { exchange } of exchanges) {
    const { name } = exchange.protocol;
    apis.set(name, (apis.get(name) ?? 0) + 1);
    if (exchange.streaming) streams++;
  }
  // One that has none is told too, so that it does not stay at what it was.
  for (const { protocol } of generation.paths.mounts)
    if (protocol) apis.set(protocol.name, apis.get(protocol.name) ?? 0);
  return [
    current(
      "gateway_inflight",
      Array.from(apis, ([api, count]) => [count, api]),
    ),
    current("gateway_streams_open", [[streams]]),
    current("gateway_generations", [[generations.length]]),
  ];
}

/** How targets and credentials do. */
function health({ marketplace, upstreams }: Generation): MetricJson[] {
  const targets = new Map(
    marketplace.models.flatMap((model) => model.targets.map((target) => [Marketplace.nameOf(target), target])),
  );
  const reports = Array.from(targets, ([name, target]) => ({ name, target, ...upstreams.health.report(target) }));
  const credentials = new Map<string, { provider: string; label: string; up: number }>();
  for (const { target, credentials: shown } of reports)
    for (const { label, state } of shown) {
      const provider = target.provider.name;
      const known = credentials.get(`${provider} ${label}`);
      // Refused for one model only it is still of use.
      credentials.set(`${provider} ${label}`, {
        provider,
        label,
        up: Math.max(known?.up ?? 0, state === "refused" ? 0 : 1),
      });
    }
  return [
    current(
      "gateway_target_up",
      reports.map(({ name, state }) => [state === "closed" ? 1 : 0, name]),
    ),
    current(
      "gateway_target_cooldown_seconds",
      reports.map(({ name, left }) => [left / 1000, name]),
    ),
    current(
      "gateway_credential_up",
      Array.from(credentials.values(), ({ provider, label, up }) => [up, provider, label]),
    ),
  ];
}

async function stores(ledger: Ledger, lost: number): Promise<MetricJson[]> {
  // The thread that knows may have died.
  const { lag, oldest, bytes, errors } = await ledger
    .backlog()
    .catch(() => ({ lag: 0, oldest: 0, bytes: 0, errors: 1 }));
  return [
    current("gateway_ledger_lag_seconds", [[lag]]),
    current("gateway_journal_oldest_seconds", [[oldest]]),
    current("gateway_journal_bytes", [[bytes]]),
    current("gateway_journal_unwritten_lines", [[ledger.unwritten?.lines ?? 0]]),
    current("gateway_store_errors_total", [
      [errors, "ledger"],
      [lost, "limits"],
    ]),
  ];
}

/** What names a gateway.yaml, without telling what stands in it. */
export const hashOf = (text: string): string => createHash("sha256").update(text).digest("hex").slice(0, 32);

/** Answers for this process. */
export function answerMetrics(answers: Answers, json: () => Promise<MetricJson[]>): void {
  answers.set(PROCESS_METRICS, json);
}
