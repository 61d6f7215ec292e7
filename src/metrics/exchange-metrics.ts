import type { Attempt } from "../core/attempt.ts";
import type { Caller } from "../core/caller.ts";
import type { Exchange } from "../core/exchange.ts";
import { Marketplace } from "../core/marketplace.ts";
import type { Usage } from "../core/usage.ts";
import { CountedNames, NO_CHARGE } from "../store/counted-names.ts";
import {
  CounterFamily,
  type CounterSeries,
  HistogramFamily,
  type HistogramSeries,
  type MetricJson,
} from "./families.ts";

/** Keys that have a label of their own; further ones are `other`. */
const MAX_KEY_LABELS = 200;
/** Faults of plugins, whose origin names the plugin. */
const PLUGIN_FAULTS = new Set(["plugin_failed", "plugin_timeout"]);

// What is counted for each exchange is looked up without a function for a missing one: V8 would allocate it each time.

/** The series of all exchanges with the same model and target. */
class TargetSeries {
  private readonly requestSeries = new Map<number, Map<string, CounterSeries>>();
  private readonly attemptSeries = new Map<number | string, CounterSeries>();
  private readonly costSeries = new Map<string, CounterSeries>();
  readonly ttft: HistogramSeries;
  readonly rate: HistogramSeries;
  readonly gap: HistogramSeries;
  readonly upstreamCost: CounterSeries;
  readonly tokens = new Map<string, CounterSeries>();

  constructor(
    private readonly families: ExchangeFamilies,
    private readonly names: { readonly api: string; readonly model: string; readonly target: string },
  ) {
    const { model, target } = names;
    this.ttft = families.ttft.labels(model, target);
    this.rate = families.rate.labels(model, target);
    this.gap = families.gap.labels(model, target);
    this.upstreamCost = families.upstreamCost.labels(target);
  }

  requests(outcome: string, status: number): CounterSeries {
    return this.requestSeries.get(status)?.get(outcome) ?? this.addRequests(outcome, status);
  }

  private addRequests(outcome: string, status: number): CounterSeries {
    const { api, model, target } = this.names;
    const outcomes = this.requestSeries.getOrInsertComputed(status, () => new Map<string, CounterSeries>());
    const series = this.families.requests.labels(api, model, target, outcome, String(status));
    outcomes.set(outcome, series);
    return series;
  }

  attempts(end: number | string): CounterSeries {
    return this.attemptSeries.get(end) ?? this.addAttempts(end);
  }

  private addAttempts(end: number | string): CounterSeries {
    const series = this.families.attempts.labels(this.names.target, String(end));
    this.attemptSeries.set(end, series);
    return series;
  }

  /** @param key its label */
  cost(key: string): CounterSeries {
    return this.costSeries.getOrInsertComputed(key, () => this.families.cost.labels(key, this.names.model));
  }

  countTokens(usage: Usage): void {
    const { in: input, out } = usage;
    this.addTokens("in", input.total);
    this.addTokens("out", out.total);
    this.addTokens("cache_read", input.cached);
    if (input.write) for (const written of Object.values(input.write)) this.addTokens("cache_write", written);
    this.addTokens("reasoning", out.reasoning);
  }

  private addTokens(type: string, tokens = 0): void {
    if (!(tokens > 0)) return;
    const { model, target } = this.names;
    this.tokens.getOrInsertComputed(type, () => this.families.tokens.labels(model, target, type)).value += tokens;
  }
}

class ExchangeFamilies {
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
  readonly estimated = new CounterFamily("gateway_estimated_usage_total");
  readonly unread = new CounterFamily("gateway_unread_usage_total");
  readonly pluginErrors = new CounterFamily("gateway_plugin_errors_total");
  readonly storeErrors = new CounterFamily("gateway_store_errors_total");
}

/** The series of an API, independent of target. */
interface ApiSeries {
  readonly duration: HistogramSeries;
  readonly overhead: HistogramSeries;
  /** By model and target. */
  readonly targets: Map<string, Map<string, TargetSeries>>;
}

/** Counts exchanges when they have ended, so that pieces of a response cost nothing. Labels are names of gateway.yaml. */
export class ExchangeMetrics {
  private readonly families = new ExchangeFamilies();
  private readonly apis = new Map<string, ApiSeries>();
  private readonly refusals = new Map<string, CounterSeries>();
  private readonly countedNames = new CountedNames();
  /** Callers with a label of their own, as last seen; undefined: their key has changed since. */
  private readonly labelledCallers = new Map<string, Caller | undefined>();

  /** Called with the name of each usage that is counted once, for other processes. */
  onCountedName: (name: string) => void = () => {};

  /** Callers that have sent requests since the last change of their key, of the first keys. */
  get callers(): Caller[] {
    return [...this.labelledCallers.values()].filter((caller) => caller !== undefined);
  }

  /** Forgets what is known of a caller, whose key has changed. @param id of the key */
  forgetCaller(id: string): void {
    for (const [name, caller] of this.labelledCallers) if (caller?.id === id) this.labelledCallers.set(name, undefined);
  }

  /** Notes that another process has counted the usage of that name. */
  addCountedName(name: string): void {
    this.countedNames.addCounted(name);
  }

  /** Counts an exchange that has ended. */
  countExchange(exchange: Exchange): void {
    if (exchange.dryRun) return;
    const { protocol, attempts, outcome, status, firstByte, elapsed } = exchange;
    const api = this.apiSeries(protocol.name);
    const last = attempts.at(-1);
    // A name that a client made up is no label: there would be one for each of its typing errors.
    const model = last?.target.modelId ?? exchange.model?.id ?? "";
    const series = this.targetSeries(api, protocol.name, model, last ? Marketplace.nameOf(last.target) : "");
    series.requests(outcome, status).value++;
    api.duration.observe(elapsed / 1000);
    if (firstByte !== undefined) {
      series.ttft.observe(firstByte / 1000);
      if (exchange.streaming && outcome === "completed") observeStream(exchange, series, elapsed - firstByte);
    }
    const overhead = overheadOf(exchange);
    if (overhead !== undefined) api.overhead.observe(overhead / 1000);
    if (outcome === "aborted")
      this.families.aborts.labels(last === undefined ? "request" : firstByte === undefined ? "waiting" : "answer")
        .value++;
    if (exchange.usageError !== undefined) this.families.unread.labels(protocol.name).value++;
    this.countCharge(exchange, series);
    // Nearly always there is one.
    if (last && attempts.length === 1) series.attempts(attemptResult(last)).value++;
    else for (let i = 0; i < attempts.length; i++) this.countAttempt(attempts[i] as Attempt, attempts[i - 1]);
    if (exchange.error) this.countError(exchange.error);
  }

  /** Counts a request that was refused before it became an exchange. */
  countRefusal(code: string): void {
    this.refusals.getOrInsertComputed(code, () => this.families.refused.labels(code)).value++;
  }

  /** Counts an answered preflight of a browser. */
  countPreflight(): void {
    this.families.preflights.labels().value++;
  }

  /** Counts a plugin that failed to record an exchange, or whose failure ended one. */
  countPluginFailure(plugin: string): void {
    this.families.pluginErrors.labels(plugin).value++;
  }

  /** @param plugins names of the serving plugins, which are listed at 0 where they have not failed */
  json(plugins: Iterable<string> = []): MetricJson[] {
    for (const plugin of plugins) this.families.pluginErrors.labels(plugin);
    return Object.values(this.families).map((family: CounterFamily | HistogramFamily) => family.json());
  }

  private countCharge({ charge, usage, caller }: Exchange, series: TargetSeries): void {
    if (!charge) {
      if (usage) series.countTokens(usage);
      return;
    }
    if (charge.estimated === true) this.families.estimated.labels().value++;
    if (charge.once !== undefined) {
      if (this.countedNames.countOnce(charge) === NO_CHARGE) return;
      this.onCountedName(charge.once);
    }
    const { usage: settled, priced = 0 } = charge;
    if (settled) series.countTokens(settled);
    if (priced > 0) series.cost(caller ? this.keyLabel(caller) : "").value += priced / 1e9;
    else if (caller) this.keyLabel(caller);
    series.upstreamCost.value += (settled?.providerCost ?? priced) / 1e9;
  }

  private countAttempt(attempt: Attempt, before: Attempt | undefined): void {
    const name = Marketplace.nameOf(attempt.target);
    this.families.attempts.labels(name, String(attemptResult(attempt))).value++;
    if (before && before.target !== attempt.target)
      this.families.fallbacks.labels(Marketplace.nameOf(before.target), name).value++;
  }

  private countError({ code, origin = "", limit, store }: NonNullable<Exchange["error"]>): void {
    if (PLUGIN_FAULTS.has(code)) this.countPluginFailure(origin.split(".")[0] as string);
    const kind = limit ?? (code === "overloaded" ? "overload" : undefined);
    if (kind !== undefined) this.families.limited.labels(kind).value++;
    if (store !== undefined) this.families.storeErrors.labels(store).value++;
  }

  private apiSeries(name: string): ApiSeries {
    const known = this.apis.get(name);
    if (known) return known;
    const { duration, overhead } = this.families;
    const series = { duration: duration.labels(name), overhead: overhead.labels(name), targets: new Map() };
    this.apis.set(name, series);
    return series;
  }

  private targetSeries({ targets }: ApiSeries, api: string, model: string, target: string): TargetSeries {
    const known = targets.get(model)?.get(target);
    if (known) return known;
    const series = new TargetSeries(this.families, { api, model, target });
    targets.getOrInsertComputed(model, () => new Map<string, TargetSeries>()).set(target, series);
    return series;
  }

  private keyLabel(caller: Caller): string {
    const { name } = caller;
    if (!this.labelledCallers.has(name) && this.labelledCallers.size >= MAX_KEY_LABELS) return "other";
    this.labelledCallers.set(name, caller);
    return name;
  }
}

/**
 * Returns the result of an attempt: the provider's status, or an error's code where the provider sent none, or reported the error
 * in its first event. What breaks off later, as only passthrough attempts know, is the exchange's outcome.
 */
function attemptResult({ error, status }: Attempt): number | string {
  return error && (status === undefined || status >= 400) ? error.code : (status ?? "none");
}

/** Observes the speed of a stream, by the same rules as the ledger. @param time milliseconds from its first byte to its end */
function observeStream({ charge, usage, bodyWrites }: Exchange, series: TargetSeries, time: number): void {
  if (time <= 0) return;
  const tokens = (charge?.usage ?? usage)?.out.total ?? 0;
  if (tokens > 1) series.rate.observe((tokens * 1000) / time);
  if (bodyWrites > 1) series.gap.observe(time / 1000 / (bodyWrites - 1));
}

/**
 * Returns the milliseconds that the gateway itself took until the first byte; undefined where that is not measured, as for
 * pass-through requests. Of a non-streamed response everything after its head counts as the provider's time.
 */
function overheadOf({ attempts, bodyWait, streaming, firstByte }: Exchange): number | undefined {
  let own = -bodyWait;
  let from = 0;
  for (const { dispatchedAt, respondedAt } of attempts) {
    if (dispatchedAt === undefined || respondedAt === undefined) return undefined;
    own += dispatchedAt - from;
    from = respondedAt;
  }
  if (attempts.length === 0) return undefined;
  if (streaming && firstByte !== undefined) own += Math.max(0, firstByte - from);
  return Math.max(0, own);
}
