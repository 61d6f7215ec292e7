import { REFUSALS } from "../core/errors.ts";

/** The static part of a metric, from which docs/metrics.md is generated. */
export interface MetricDefinition {
  readonly type: "counter" | "gauge" | "histogram";
  readonly labels: readonly string[];
  readonly help: string;
  /** Upper ends of a histogram's buckets. */
  readonly buckets?: readonly number[];
  /** Values of its only label that exist from the start, at 0, so that `increase` sees the first event. */
  readonly known?: readonly string[];
  /** How the values of several processes are aggregated; absent: their sum. */
  readonly across?: "max" | "min" | "average" | "first";
}

const SECONDS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300];
const SHORT = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
const RATES = [1, 2, 5, 10, 20, 30, 40, 60, 80, 100, 150, 200, 300, 500, 1000];

const counter = (labels: readonly string[], help: string, known?: readonly string[]): MetricDefinition => ({
  ...{ type: "counter", labels, help },
  ...(known && { known }),
});
const gauge = (labels: readonly string[], help: string, across?: MetricDefinition["across"]): MetricDefinition => ({
  ...{ type: "gauge", labels, help },
  ...(across && { across }),
});
const histogram = (labels: readonly string[], help: string, buckets: readonly number[]): MetricDefinition => ({
  ...{ type: "histogram", labels, help, buckets },
});

/** Reasons for which a request may be refused before it becomes an exchange. */
const EARLY = [
  ...Object.entries(REFUSALS).flatMap(([code, { step }]) => (step === "head" || step === "path" ? [code] : [])),
  ...["conflicting_api_keys", "invalid_field", "too_many_pipelined"],
];

/** All metrics that the gateway defines itself. */
export const METRICS = {
  gateway_requests_total: counter(
    ["api", "model", "target", "outcome", "code"],
    "Exchanges that have ended, each once, however often it was tried.",
  ),
  gateway_request_duration_seconds: histogram(["api"], "From arrival to end.", SECONDS),
  gateway_overhead_seconds: histogram(
    ["api"],
    "The gateway's own part of the time to the first byte: without the time for which the client's body and providers were waited for, with waiting for room and between tries.",
    SHORT,
  ),
  gateway_ttft_seconds: histogram(["model", "target"], "From arrival to the first byte of the answer's body.", SECONDS),
  gateway_output_tokens_per_second: histogram(
    ["model", "target"],
    "Of completed streams of two tokens or more: tokens that came out, by the time from first byte to end.",
    RATES,
  ),
  gateway_inter_chunk_seconds: histogram(
    ["model", "target"],
    "Of completed streams of two pieces or more: the mean time between two of them.",
    SHORT,
  ),
  gateway_tokens_total: counter(["model", "target", "type"], "Tokens, as the ledger has them."),
  gateway_cost_usd_total: counter(["key", "model"], "What exchanges cost in dollars, as the ledger has it."),
  gateway_upstream_cost_usd_total: counter(
    ["target"],
    "The same by who served it; where the provider told what it bills, that.",
  ),
  gateway_attempts_total: counter(
    ["target", "reason"],
    "Tries at targets, by the status that came or the error's code.",
  ),
  gateway_fallbacks_total: counter(["from", "to"], "Tries at another target behind one that did not answer."),
  gateway_refused_total: counter(
    ["reason"],
    "Requests that were refused before they became exchanges: malformed heads, unknown paths and methods, too much at once.",
    EARLY,
  ),
  gateway_preflights_total: counter(
    [],
    "Preflights of browsers (`cors`) that were answered; those of other pages are refused, by `origin_not_allowed`.",
  ),
  gateway_limited_total: counter(["kind"], "Exchanges that were refused because of a limit.", [
    ...["rpm", "tpm", "concurrency", "budget", "overload"],
  ]),
  gateway_client_aborts_total: counter(["phase"], "Exchanges whose client left before their end.", [
    ...["request", "waiting", "answer"],
  ]),
  gateway_estimated_usage_total: counter(
    [],
    "Exchanges whose tokens are a guess in whole or in part, because the provider has not told all. It should be near 0.",
  ),
  gateway_unread_usage_total: counter(
    ["api"],
    "Answers whose usage could not be read although they were whole: the log has the cause. It should be 0.",
  ),
  gateway_plugin_errors_total: counter(
    ["plugin"],
    "Faults of plugins: what they threw that is no refusal, and deadlines.",
  ),
  gateway_plugin_seconds: histogram(
    ["plugin", "hook"],
    "What a phase of a plugin took, of one call in 17, and of 200 in a row once something has blocked the event loop: `_count` is that of those.",
    [0.00001, 0.00005, 0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10],
  ),
  gateway_plugin_blocking_calls_total: counter(
    ["plugin", "hook"],
    "Calls of a plugin that blocked the event loop for more than 50 ms, in which nothing else was served, of those that `gateway_plugin_seconds` counts: up to their first `await`; of stages one frame in 16, and the last.",
  ),
  gateway_inflight: gauge(["api"], "Exchanges that have not ended."),
  gateway_streams_open: gauge([], "Streams and WebSockets among them whose answer has begun."),
  gateway_target_up: gauge(
    ["target"],
    "0: it fails too often, and is left alone until a request has gone well there again, or it is switched off.",
    "min",
  ),
  gateway_target_cooldown_seconds: gauge(["target"], "Seconds until it is asked again; 0: it is asked.", "max"),
  gateway_credential_up: gauge(
    ["provider", "credential"],
    "0: the provider does not accept it (401, 403), and it is tried now and then.",
    "min",
  ),
  gateway_upstream_ratelimit_remaining: gauge(
    ["target", "kind"],
    "What the provider last said is left of its own limits of a minute; looked at once a second and target.",
    "min",
  ),
  gateway_budget_remaining_usd: gauge(
    ["of", "name", "per"],
    "Dollars that may still be spent of a budget, worst cases of what runs taken off: of keys that have asked since the start and of their groups, of models, providers and all together.",
    "min",
  ),
  gateway_budget_limit_usd: gauge(["of", "name", "per"], "The budget itself, in dollars.", "max"),
  gateway_limiter_degraded: gauge(
    [],
    "1: limits cannot be counted together with others, and this gateway keeps to its part.",
    "max",
  ),
  gateway_journal_bytes: gauge([], "Bytes of the journals' files.", "max"),
  gateway_journal_unwritten_lines: gauge(
    [],
    "Lines that are in memory only, as their journal cannot be written (a full disk): they are lost with the process.",
  ),
  gateway_journal_oldest_seconds: gauge(
    [],
    "Age of the oldest journal that is not in the ledger yet, those of processes that have died included, or of the oldest line that cannot be written.",
    "max",
  ),
  gateway_ledger_lag_seconds: gauge(
    [],
    "For how long the ledger has been behind the journal, or the journal could not be written; 0: it is not.",
    "max",
  ),
  gateway_store_errors_total: counter(["store"], "Times that a store did not do what it was asked.", [
    ...["ledger", "keys", "objects", "limits"],
  ]),
  gateway_store_waiting: gauge(
    [],
    "1: the ledger cannot be written, and rows wait in the journal or in memory. Absent while no worker serves.",
  ),
  gateway_generations: gauge([], "Configurations that exchanges keep alive, the one that serves included."),
  gateway_config_info: gauge(["hash"], "1: the first half of the SHA-256 of the gateway.yaml that is served."),
  gateway_config_reload_failed: gauge([], "1: the last reload failed, and what was before is served."),
  gateway_config_reloads_total: counter([], "Reloads that succeeded."),
  gateway_config_reloads_failed_total: counter([], "Reloads that failed."),
  gateway_workers_wanted: gauge([], "With `workers`: how many there shall be."),
  gateway_workers_up: gauge([], "With `workers`: how many of them serve."),
  gateway_worker_deaths_total: counter(
    [],
    "With `workers`: those that have ended though nobody wanted that, or did not start; each is replaced.",
  ),
  gateway_providers_off: gauge([], "Providers that take no requests, because a credential is not set."),
  gateway_alerts_total: counter(["result"], "Alerts that were posted, and those that could not be."),
  gateway_eventloop_lag_seconds: gauge([], "p99 of how late the event loop was since the last scrape.", "max"),
} as const satisfies Record<string, MetricDefinition>;

export type MetricName = keyof typeof METRICS;

/** The meaning of the labels. Values are names of gateway.yaml, or words of a list; clients cannot make any up. */
export const LABELS: Readonly<Record<string, string>> = {
  api: "the client's protocol, as paths of gateway.yaml name it",
  model: "the marketplace's model that served, or was asked last; empty where the client named none of them",
  target: "`provider:model` as gateway.yaml names it; empty where no provider was asked",
  outcome: "`completed`, `aborted`, `upstream_error`, `rejected`, `failed` or `interrupted`",
  code: "the HTTP status",
  type: "`in` (cached and written ones included), `out` (reasoning included), `cache_read`, `cache_write`, `reasoning`",
  key: "the key's name; the first 200 have a label of their own, further ones are `other`",
  reason:
    "of a try the provider's status, or the code of the error where it gave none; of a refusal its code (docs/errors.md), or `too_many_pipelined`, which closes the connection without an answer",
  from: "a target",
  to: "a target",
  kind: "of limits `rpm`, `tpm`, `concurrency`, `budget` or `overload`; of a provider's own `requests` or `tokens`",
  phase: "`request`: before a provider was asked; `waiting`: before the first byte; `answer`: behind it",
  plugin: "the plugin's name in gateway.yaml",
  hook: "`access`, `request`, `route`, `send`, `failed`, `response`, `done` or `serve`",
  provider: "the provider's name in gateway.yaml",
  credential: "the variable or file it comes from",
  of: "`key`, `group`, `model`, `provider` or `all`",
  name: "of the key, the group, the model or the provider; empty for `all`",
  per: "`hour`, `day`, `week`, `month` or `total`",
  store: "`ledger`, `keys`, `objects` or `limits`",
  hash: "32 hexadecimal digits",
  result: "`posted` or `failed`",
};
