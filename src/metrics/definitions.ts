import { REFUSALS } from "../core/errors.ts";

/** The static part of a metric, from which docs/metrics.md is generated. */
export interface MetricDefinition {
  readonly type: "counter" | "gauge" | "histogram";
  readonly labels: readonly string[];
  readonly help: string;
  /** Upper ends of a histogram's buckets. */
  readonly buckets?: readonly number[];
  /** Values of its only label that exist from the start, at 0, so that `increase` sees the first event. */
  readonly initialValues?: readonly string[];
  /** How the values of several processes are aggregated; absent: their sum. */
  readonly aggregation?: "max" | "min" | "average" | "first";
}

const SECONDS_BUCKETS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300];
const SHORT_BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
const RATE_BUCKETS = [1, 2, 5, 10, 20, 30, 40, 60, 80, 100, 150, 200, 300, 500, 1000];

const counter = (labels: readonly string[], help: string, initialValues?: readonly string[]): MetricDefinition => ({
  ...{ type: "counter", labels, help },
  ...(initialValues && { initialValues }),
});
const gauge = (
  labels: readonly string[],
  help: string,
  aggregation?: MetricDefinition["aggregation"],
): MetricDefinition => ({
  ...{ type: "gauge", labels, help },
  ...(aggregation && { aggregation }),
});
const histogram = (labels: readonly string[], help: string, buckets: readonly number[]): MetricDefinition => ({
  ...{ type: "histogram", labels, help, buckets },
});

/** Reasons for which a request may be refused before it becomes an exchange. */
const EARLY_REFUSALS = [
  ...Object.entries(REFUSALS).flatMap(([code, { step }]) => (step === "head" || step === "path" ? [code] : [])),
  ...["conflicting_api_keys", "invalid_field", "too_many_connections", "too_many_pipelined", "wrong_admin_token"],
];

/** All metrics that the gateway defines itself. */
export const METRICS = {
  gateway_requests_total: counter(
    ["api", "model", "target", "outcome", "code"],
    "Exchanges that have ended; each counts once, however many attempts it took.",
  ),
  gateway_request_duration_seconds: histogram(["api"], "From arrival to end.", SECONDS_BUCKETS),
  gateway_overhead_seconds: histogram(
    ["api"],
    "The gateway's own part of the time to first byte: includes waiting in queues and before retries, excludes waiting for the client's body and for providers.",
    SHORT_BUCKETS,
  ),
  gateway_ttft_seconds: histogram(
    ["model", "target"],
    "From arrival to the first byte of the answer's body.",
    SECONDS_BUCKETS,
  ),
  gateway_output_tokens_per_second: histogram(
    ["model", "target"],
    "Output tokens per second from first byte to end, of completed streams of two tokens or more.",
    RATE_BUCKETS,
  ),
  gateway_inter_chunk_seconds: histogram(
    ["model", "target"],
    "Mean time between two chunks, of completed streams of two chunks or more.",
    SHORT_BUCKETS,
  ),
  gateway_tokens_total: counter(["model", "target", "type"], "Tokens, as recorded in the ledger."),
  gateway_cost_usd_total: counter(["key", "model"], "Cost of exchanges in dollars, as recorded in the ledger."),
  gateway_upstream_cost_usd_total: counter(
    ["target"],
    "Cost of exchanges in dollars by target; the provider's own figure where it reports one.",
  ),
  gateway_attempts_total: counter(
    ["target", "reason"],
    "Attempts at targets, by the provider's status or the error code.",
  ),
  gateway_fallbacks_total: counter(["from", "to"], "Attempts at another target after one that failed."),
  gateway_refused_total: counter(
    ["reason"],
    "Requests that were refused before they became exchanges: malformed heads, unknown paths and methods, overload, wrong tokens on the admin side.",
    EARLY_REFUSALS,
  ),
  gateway_preflights_total: counter(
    [],
    "CORS preflights that were answered (`cors`); those of other origins are refused with `origin_not_allowed`.",
  ),
  gateway_limited_total: counter(["kind"], "Exchanges that were refused because of a limit.", [
    ...["rpm", "tpm", "concurrency", "budget", "memory", "overload"],
  ]),
  gateway_client_aborts_total: counter(["phase"], "Exchanges whose client left before their end.", [
    ...["request", "waiting", "answer"],
  ]),
  gateway_estimated_usage_total: counter(
    [],
    "Exchanges whose tokens are estimated in whole or in part, because the provider did not report all of them. Should be near 0.",
  ),
  gateway_unread_usage_total: counter(
    ["api"],
    "Complete responses whose usage could not be read; the log has the cause. Should be 0.",
  ),
  gateway_plugin_errors_total: counter(
    ["plugin"],
    "Failures of plugins: exceptions other than refusals, and missed deadlines.",
  ),
  gateway_plugin_seconds: histogram(
    ["plugin", "hook"],
    "Duration of a plugin's phase. Only one call in 17 is measured, and 200 calls in a row after something blocked the event loop; `_count` counts the measured calls.",
    [0.00001, 0.00005, 0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10],
  ),
  gateway_plugin_blocking_calls_total: counter(
    ["plugin", "hook"],
    "Calls of a plugin that blocked the event loop for more than 50 ms, during which nothing else is served. Of the calls that `gateway_plugin_seconds` measures, up to their first `await`; of stages, one frame in 16 and the last.",
  ),
  gateway_inflight: gauge(["api"], "Exchanges that have not ended."),
  gateway_streams_open: gauge([], "Streams and WebSockets of `gateway_inflight` whose response has begun."),
  gateway_target_up: gauge(
    ["target"],
    "0: the target is suspended because it fails too often, until a request to it succeeds, or it is switched off. 1: it is used.",
    "min",
  ),
  gateway_target_cooldown_seconds: gauge(
    ["target"],
    "Seconds until a suspended target is tried again; 0: it is used.",
    "max",
  ),
  gateway_credential_up: gauge(
    ["provider", "credential"],
    "0: the provider rejects the credential (401, 402, 403), and it is retried now and then. 1: it is used.",
    "min",
  ),
  gateway_upstream_ratelimit_remaining: gauge(
    ["target", "kind"],
    "Rest of the provider's own limits per minute, as it last reported; sampled once per second and target.",
    "min",
  ),
  gateway_budget_remaining_usd: gauge(
    ["of", "name", "per", "soft"],
    "Dollars left of a budget, minus the worst-case cost of running requests: of keys that sent requests since the start or their last change and of their groups, of models, providers and all requests together.",
    "min",
  ),
  gateway_budget_limit_usd: gauge(["of", "name", "per", "soft"], "The budget itself, in dollars.", "max"),
  gateway_limiter_degraded: gauge(
    [],
    "1: limits cannot be counted together with other gateways, and this one enforces its share of them.",
    "max",
  ),
  gateway_journal_bytes: gauge([], "Bytes of the journals' files.", "max"),
  gateway_journal_unwritten_lines: gauge(
    [],
    "Journal lines that are in memory only because the journal cannot be written (a full disk); they are lost if the process ends.",
  ),
  gateway_journal_oldest_seconds: gauge(
    [],
    "Age of the oldest journal that is not yet in the ledger, including journals of dead processes, or of the oldest line that cannot be written.",
    "max",
  ),
  gateway_ledger_lag_seconds: gauge(
    [],
    "How long the ledger has been behind the journal, or the journal could not be written; 0: neither.",
    "max",
  ),
  gateway_store_errors_total: counter(["store"], "Failed operations of a store.", [
    ...["ledger", "keys", "objects", "limits"],
  ]),
  gateway_store_waiting: gauge(
    [],
    "1: the ledger cannot be written, and rows wait in the journal or in memory; 0: it can. Absent while no worker serves.",
  ),
  gateway_generations: gauge(
    [],
    "Loaded configurations: the current one, and older ones that exchanges still use; with `workers` of the worker with the most.",
    "max",
  ),
  gateway_config_info: gauge(
    ["hash"],
    "1: a hash of what the served gateway.yaml says, without what belongs to one gateway: `listen`, `admin: listen`, `store: journal` and the file of a SQLite ledger.",
  ),
  gateway_config_reload_failed: gauge([], "1: the last reload failed, and the previous configuration is still served."),
  gateway_config_reloads_total: counter([], "Reloads that succeeded."),
  gateway_config_reloads_failed_total: counter([], "Reloads that failed."),
  gateway_workers_wanted: gauge([], "With `workers`: how many are configured."),
  gateway_workers_up: gauge([], "With `workers`: how many of them serve."),
  gateway_worker_deaths_total: counter(
    [],
    "With `workers`: workers that ended unexpectedly or did not start; each is replaced.",
  ),
  gateway_providers_off: gauge([], "Providers that are off because a credential is not set."),
  gateway_alerts_total: counter(["result"], "Alerts that were posted, and those that could not be."),
  gateway_eventloop_lag_seconds: gauge([], "p99 of the event loop's delay since the last scrape.", "max"),
} as const satisfies Record<string, MetricDefinition>;

export type MetricName = keyof typeof METRICS;

/** The meaning of the labels. Values are names of gateway.yaml, or words of a list; clients cannot make any up. */
export const LABELS: Readonly<Record<string, string>> = {
  api: "the client's protocol, as paths of gateway.yaml name it",
  model: "the model that served the request, or was tried last; empty if the client named no known model",
  target: "`provider:model` as in gateway.yaml; empty if no provider was called",
  outcome: "`completed`, `aborted`, `upstream_error`, `rejected`, `failed` or `interrupted`",
  code: "the HTTP status",
  type: "`in` (cached and written ones included), `out` (reasoning included), `cache_read`, `cache_write`, `reasoning`",
  key: "the key's name; the first 200 have a label of their own, further ones are `other`",
  reason:
    "of an attempt: the provider's status, or the error code if there was none; of a refusal: its code (docs/errors.md), or `too_many_pipelined` or `too_many_connections` (`connections: { per_address }`), which close the connection without a response",
  from: "a target",
  to: "a target",
  kind: "of limits `rpm`, `tpm`, `concurrency`, `budget`, `memory` (request bodies) or `overload`; of a provider's own `requests` or `tokens`",
  phase: "`request`: before a provider was called; `waiting`: before the first byte; `answer`: after it",
  plugin: "the plugin's name in gateway.yaml",
  hook: "`access`, `request`, `route`, `send`, `failed`, `response`, `done` or `serve`",
  provider: "the provider's name in gateway.yaml",
  credential: "the variable or file that the credential comes from",
  of: "`key`, `group`, `model`, `provider` or `all`",
  name: "of the key, the group, the model or the provider; empty for `all`",
  per: "`hour`, `day`, `week`, `month` or `total`",
  soft: "`true`: the budget only warns",
  store: "`ledger`, `keys`, `objects` or `limits`",
  hash: "32 hexadecimal digits",
  result: "`posted` or `failed`",
};
