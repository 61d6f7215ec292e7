import type { Attempt, Exchange } from "../core/exchange.ts";
import { type Caller, Marketplace } from "../core/marketplace.ts";
import type { Usage } from "../core/usage.ts";
import { NOTHING, OnceNames } from "../store/once-names.ts";
import { type Count, CounterFamily, type Distribution, HistogramFamily, type MetricJson, under } from "./families.ts";

/** Keys that have a label of their own; further ones are `other`. */
const MOST_KEYS = 200;
/** Faults of plugins, whose origin names the plugin. */
const FAULTS = new Set(["plugin_failed", "plugin_timeout"]);

/** The series of all exchanges with the same model and target. */
class TargetSeries {
  private readonly ended = new Map<number, Map<string, Count>>();
  private readonly tried = new Map<number | string, Count>();
  private readonly spent = new Map<string, Count>();
  readonly ttft: Distribution;
  readonly rate: Distribution;
  readonly gap: Distribution;
  readonly upstreamCost: Count;
  readonly tokens = new Map<string, Count>();

  constructor(
    private readonly families: Families,
    private readonly names: { readonly api: string; readonly model: string; readonly target: string },
  ) {
    const { model, target } = names;
    this.ttft = families.ttft.of(model, target);
    this.rate = families.rate.of(model, target);
    this.gap = families.gap.of(model, target);
    this.upstreamCost = families.upstreamCost.of(target);
  }

  requests(outcome: string, status: number): Count {
    const { api, model, target } = this.names;
    const outcomes = under(this.ended, status, () => new Map<string, Count>());
    return under(outcomes, outcome, () => this.families.requests.of(api, model, target, outcome, String(status)));
  }

  attempts(end: number | string): Count {
    return under(this.tried, end, () => this.families.attempts.of(this.names.target, String(end)));
  }

  /** @param key its label */
  cost(key: string): Count {
    return under(this.spent, key, () => this.families.cost.of(key, this.names.model));
  }

  count(usage: Usage): void {
    const { in: input, out } = usage;
    this.add("in", input.total);
    this.add("out", out.total);
    this.add("cache_read", input.cached);
    if (input.write) for (const written of Object.values(input.write)) this.add("cache_write", written);
    this.add("reasoning", out.reasoning);
  }

  private add(type: string, tokens = 0): void {
    if (!(tokens > 0)) return;
    const { model, target } = this.names;
    under(this.tokens, type, () => this.families.tokens.of(model, target, type)).value += tokens;
  }
}

class Families {
  readonly requests = new CounterFamily("gateway_requests_total");
  readonly duration = new HistogramFamily("gateway_request_duration_seconds");
  readonly overhead = new HistogramFamily("gateway_overhead_seconds");
  readonly ttft = new HistogramFamily("gateway_ttft_seconds");
  readonly rate = new HistogramFamily("gateway_output_tokens_per_second");
  readonly gap = new HistogramFamily("gateway_inter_chunk_seconds");
  readonly tokens = new CounterFamily("gateway_tokens_total");
  readonly cost = new CounterFamily("gateway_cost_usd_total");
  readonly upstreamCost = new CounterFamily("gateway_upstream_cost_usd_total");
  readonly attempts = new CounterFamily("gateway_attempts_total");
  readonly fallbacks = new CounterFamily("gateway_fallbacks_total");
  readonly refused = new CounterFamily("gateway_refused_total");
  readonly preflights = new CounterFamily("gateway_preflights_total");
  readonly limited = new CounterFamily("gateway_limited_total");
  readonly aborts = new CounterFamily("gateway_client_aborts_total");
  readonly guesses = new CounterFamily("gateway_estimated_usage_total");
  readonly unread = new CounterFamily("gateway_unread_usage_total");
  readonly pluginErrors = new CounterFamily("gateway_plugin_errors_total");
  readonly storeErrors = new CounterFamily("gateway_store_errors_total");
}

/** The series of an API, independent of target. */
interface ApiSeries {
  readonly duration: Distribution;
  readonly overhead: Distribution;
  /** By model and target. */
  readonly targets: Map<string, Map<string, TargetSeries>>;
}

/** Counts exchanges when they have ended, so that pieces of a response cost nothing. Labels are names of gateway.yaml. */
export class ExchangeMetrics {
  private readonly families = new Families();
  private readonly apis = new Map<string, ApiSeries>();
  private readonly refusals = new Map<string, Count>();
  private readonly once = new OnceNames();
  /** Callers with a label of their own, as last seen. */
  private readonly labelled = new Map<string, Caller>();

  /** Callers that have sent requests, of the first keys. */
  get callers(): Iterable<Caller> {
    return this.labelled.values();
  }

  /** Counts an exchange that has ended. */
  ended(exchange: Exchange): void {
    if (exchange.dryRun) return;
    const { protocol, attempts, outcome, status, firstByte, elapsed } = exchange;
    const api = this.api(protocol.name);
    const last = attempts.at(-1);
    // A name that a client made up is no label: there would be one for each of its typing errors.
    const model = last?.target.serves ?? exchange.model?.id ?? "";
    const series = this.target(api, protocol.name, model, last ? Marketplace.nameOf(last.target) : "");
    series.requests(outcome, status).value++;
    api.duration.observe(elapsed / 1000);
    if (firstByte !== undefined) {
      series.ttft.observe(firstByte / 1000);
      if (exchange.streaming && outcome === "completed") streamed(exchange, series, elapsed - firstByte);
    }
    const overhead = overheadOf(exchange);
    if (overhead !== undefined) api.overhead.observe(overhead / 1000);
    if (outcome === "aborted")
      this.families.aborts.of(last === undefined ? "request" : firstByte === undefined ? "waiting" : "answer").value++;
    if (exchange.unread !== undefined) this.families.unread.of(protocol.name).value++;
    this.charged(exchange, series);
    // Nearly always there is one.
    if (last && attempts.length === 1) series.attempts(endOf(last)).value++;
    else for (let i = 0; i < attempts.length; i++) this.tried(attempts[i] as Attempt, attempts[i - 1]);
    if (exchange.error) this.failed(exchange.error);
  }

  /** Counts a request that was refused before it became an exchange. */
  refused(code: string): void {
    under(this.refusals, code, () => this.families.refused.of(code)).value++;
  }

  /** Counts an answered preflight of a browser. */
  preflight(): void {
    this.families.preflights.of().value++;
  }

  /** Counts a plugin that failed to record an exchange, or whose failure ended one. */
  pluginFailed(plugin: string): void {
    this.families.pluginErrors.of(plugin).value++;
  }

  /** @param plugins names of the serving plugins, which are listed at 0 where they have not failed */
  json(plugins: Iterable<string> = []): MetricJson[] {
    for (const plugin of plugins) this.families.pluginErrors.of(plugin);
    return Object.values(this.families).map((family: CounterFamily | HistogramFamily) => family.json());
  }

  private charged({ charge, usage, caller }: Exchange, series: TargetSeries): void {
    if (!charge) {
      if (usage) series.count(usage);
      return;
    }
    if (charge.estimated === true) this.families.guesses.of().value++;
    // `count` returns NOTHING for a charge that was counted before.
    const counted = charge.once === undefined ? charge : this.once.count(charge);
    if (counted === NOTHING) return;
    const { usage: settled, priced = 0 } = charge;
    if (settled) series.count(settled);
    if (priced > 0) series.cost(caller ? this.label(caller) : "").value += priced / 1e9;
    else if (caller) this.label(caller);
    series.upstreamCost.value += (settled?.providerCost ?? priced) / 1e9;
  }

  private tried(attempt: Attempt, before: Attempt | undefined): void {
    const name = Marketplace.nameOf(attempt.target);
    this.families.attempts.of(name, String(endOf(attempt))).value++;
    if (before && before.target !== attempt.target)
      this.families.fallbacks.of(Marketplace.nameOf(before.target), name).value++;
  }

  private failed({ code, origin = "", limit, store }: NonNullable<Exchange["error"]>): void {
    if (FAULTS.has(code)) this.pluginFailed(origin.split(".")[0] as string);
    const kind = limit ?? (code === "overloaded" ? "overload" : undefined);
    if (kind !== undefined) this.families.limited.of(kind).value++;
    if (store !== undefined) this.families.storeErrors.of(store).value++;
  }

  private api(name: string): ApiSeries {
    const { duration, overhead } = this.families;
    return under(this.apis, name, () => ({
      duration: duration.of(name),
      overhead: overhead.of(name),
      targets: new Map(),
    }));
  }

  private target({ targets }: ApiSeries, api: string, model: string, target: string): TargetSeries {
    const models = under(targets, model, () => new Map<string, TargetSeries>());
    return under(models, target, () => new TargetSeries(this.families, { api, model, target }));
  }

  private label(caller: Caller): string {
    const { name } = caller;
    if (!this.labelled.has(name) && this.labelled.size >= MOST_KEYS) return "other";
    this.labelled.set(name, caller);
    return name;
  }
}

/** Returns the result of an attempt: an error's code, or the provider's status. */
const endOf = ({ error, status }: Attempt): number | string => error?.code ?? status ?? "none";

/** Observes the speed of a stream, by the same rules as the ledger. @param time milliseconds from its first byte to its end */
function streamed({ charge, usage, pieces }: Exchange, series: TargetSeries, time: number): void {
  if (time <= 0) return;
  const tokens = (charge?.usage ?? usage)?.out.total ?? 0;
  if (tokens > 1) series.rate.observe((tokens * 1000) / time);
  if (pieces > 1) series.gap.observe(time / 1000 / (pieces - 1));
}

/**
 * Returns the milliseconds that the gateway itself took until the first byte; undefined where that is not measured, as for
 * pass-through requests. Of a non-streamed response everything after its head counts as the provider's time.
 */
function overheadOf({ attempts, waited, streaming, firstByte }: Exchange): number | undefined {
  let own = -waited;
  let from = 0;
  for (const { sentAt, answeredAt } of attempts) {
    if (sentAt === undefined || answeredAt === undefined) return undefined;
    own += sentAt - from;
    from = answeredAt;
  }
  if (attempts.length === 0) return undefined;
  if (streaming && firstByte !== undefined) own += Math.max(0, firstByte - from);
  return Math.max(0, own);
}
