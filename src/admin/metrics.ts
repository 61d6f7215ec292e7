import {
  AggregatorRegistry,
  Counter,
  Gauge,
  Histogram,
  type MetricObjectWithValues,
  type MetricValue,
  Registry,
} from "prom-client";
import type { Exchange } from "../core/exchange.ts";
import { type Answers, question } from "../workers/peers.ts";
import { type AskedGateway } from "./questions.ts";
import type { AdminSubject } from "./served.ts";

type MetricJson = MetricObjectWithValues<MetricValue<string>>;

/** The metrics of one process. */
const METRICS = question<null, MetricJson[]>("metrics");

/** Names of keys that have a label of their own; further ones are `other`. */
const MOST_KEYS = 200;
const SECONDS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300];

/** Counts what has ended: once for each exchange, nothing for each piece of an answer. Labels are names of gateway.yaml. */
export class Metrics {
  private readonly registry = new Registry();
  private readonly keys = new Set<string>();
  private readonly requests = this.counter("gateway_requests_total", "Exchanges that have ended.", [
    ...["api", "model", "target", "outcome", "code"],
  ]);
  private readonly duration = this.histogram("gateway_request_duration_seconds", "From arrival to end.", ["api"]);
  private readonly ttft = this.histogram("gateway_ttft_seconds", "From arrival to the first byte.", [
    "model",
    "target",
  ]);
  private readonly tokens = this.counter("gateway_tokens_total", "Tokens that providers told of.", [
    ...["model", "target", "type"],
  ]);
  private readonly cost = this.counter("gateway_cost_usd_total", "What exchanges cost.", ["key", "model"]);
  private readonly attempts = this.counter("gateway_attempts_total", "Tries at targets.", ["target", "reason"]);

  constructor(gateway: AskedGateway) {
    const registers = [this.registry];
    new Gauge({
      ...{ name: "gateway_inflight", help: "Exchanges that have not ended.", registers },
      collect() {
        this.set(gateway.exchanges.length);
      },
    });
    new Gauge({
      ...{ name: "gateway_generations", help: "Configurations that exchanges keep alive.", registers },
      collect() {
        this.set(gateway.generations.length);
      },
    });
    new Gauge({
      ...{
        name: "gateway_target_up",
        help: "0: it is left alone.",
        labelNames: ["target"],
        registers,
        aggregator: "min",
      },
      collect() {
        this.reset();
        const { marketplace, upstreams } = gateway.generation;
        for (const target of marketplace.models.flatMap((model) => model.targets))
          this.set({ target: nameOf({ target }) }, upstreams.health.report(target).state === "open" ? 0 : 1);
      },
    });
  }

  /** An exchange has ended. */
  ended(exchange: Exchange): void {
    const { protocol, attempts, attempt, outcome, status, usage, charge, caller, firstByte } = exchange;
    // What a client has made up is no label: there would be one for each of its slips.
    const model = attempt?.target.serves ?? exchange.model?.id ?? "";
    const target = attempt ? nameOf(attempt) : "";
    this.requests.inc({ api: protocol.name, model, target, outcome, code: String(status) });
    this.duration.observe({ api: protocol.name }, exchange.elapsed / 1000);
    if (firstByte !== undefined) this.ttft.observe({ model, target }, firstByte / 1000);
    const counts = {
      in: usage?.in.total,
      out: usage?.out.total,
      cache_read: usage?.in.cached,
      reasoning: usage?.out.reasoning,
    };
    for (const [type, count] of Object.entries(counts))
      if (count !== undefined && count > 0) this.tokens.inc({ model, target, type }, count);
    if (charge && charge.cost > 0) this.cost.inc({ key: this.keyLabel(caller?.name ?? ""), model }, charge.cost / 1e9);
    for (const each of attempts)
      this.attempts.inc({ target: nameOf(each), reason: each.error?.code ?? String(each.status ?? "none") });
  }

  json(): Promise<MetricJson[]> {
    return this.registry.getMetricsAsJSON() as Promise<MetricJson[]>;
  }

  private keyLabel(name: string): string {
    if (this.keys.has(name)) return name;
    if (this.keys.size >= MOST_KEYS) return "other";
    this.keys.add(name);
    return name;
  }

  private counter(name: string, help: string, labelNames: string[]): Counter {
    return new Counter({ name, help, labelNames, registers: [this.registry] });
  }

  private histogram(name: string, help: string, labelNames: string[]): Histogram {
    return new Histogram({ name, help, labelNames, buckets: SECONDS, registers: [this.registry] });
  }
}

const nameOf = ({ target: { provider, model } }: Pick<NonNullable<Exchange["attempt"]>, "target">): string =>
  `${provider.name}:${model}`;

/** Answers for this process. */
export function answerMetrics(answers: Answers, metrics: Metrics): void {
  answers.set(METRICS, () => metrics.json());
}

/** All metrics, those of several processes added up, as Prometheus reads them. */
export async function metricsText(subject: AdminSubject): Promise<{ type: string; text: string }> {
  const all = await subject.askAll(METRICS, null);
  const registry = AggregatorRegistry.aggregate(all as never);
  const { config, reloads, stores } = subject;
  const gauge = (name: string, help: string, value: number) =>
    new Gauge({ name, help, registers: [registry as Registry] }).set(value);
  gauge("gateway_config_reload_failed", "1: the last reload failed.", reloads.last?.problem === undefined ? 0 : 1);
  gauge("gateway_config_reloads_failed_total", "Reloads that failed.", reloads.failed);
  gauge("gateway_config_reloads_total", "Reloads that succeeded.", reloads.succeeded);
  gauge("gateway_store_waiting", "1: the ledger cannot be written.", stores.ledger.state === "ok" ? 0 : 1);
  gauge("gateway_providers_off", "Providers that take no requests.", config.providers.filter(({ off }) => off).length);
  return { type: registry.contentType, text: await registry.metrics() };
}
