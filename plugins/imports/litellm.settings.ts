/** The sections of LiteLLM's file besides its models. */

import { type Draft, type ForeignFields, foreignFields, foreignList, nonEmptyText, numberAt } from "./draft.ts";
import { MAX_RETRIES, withoutDefaults } from "./litellm.hints.ts";

/** Our `balance:` for its routing strategies. */
const BALANCES: Readonly<Record<string, string>> = {
  "simple-shuffle": "weighted",
  "least-busy": "latency",
  "latency-based-routing": "latency",
  "cost-based-routing": "cheapest",
};

const NO_SUCH_MODEL = "there is no such model in the file";

/** Converts `[{ a: [b, c] }]` to fallbacks of models. Returns those of `*`: for every model without its own. */
function readFallbacks(value: unknown, path: string, draft: Draft): string[] {
  const usual: string[] = [];
  for (const each of foreignList(value))
    for (const [name, others] of Object.entries(foreignFields(each))) {
      const known = foreignList(others).flatMap((other) => nonEmptyText(other) ?? []);
      if (name === "*") usual.push(...known);
      else if (!draft.has(name)) draft.reportLost(`${path} (${name})`, NO_SUCH_MODEL);
      else draft.model(name).fallback.push(...known);
      for (const other of known) if (!draft.has(other)) draft.reportLost(`${path} (${name} → ${other})`, NO_SUCH_MODEL);
    }
  return usual;
}

/** Returns `[b, c]`, which follow the fallbacks of every model. */
function readDefaultFallbacks(value: unknown, path: string, draft: Draft): string[] {
  const named = foreignList(value).flatMap((each) => nonEmptyText(each) ?? []);
  for (const name of named) if (!draft.has(name)) draft.reportLost(`${path} (${name})`, NO_SUCH_MODEL);
  return named;
}

const isHidden = (alias: unknown): boolean => foreignFields(alias)["hidden"] === true;

/** Makes hidden aliases models of their own that pages do not show, as complete as theirs: an alias is shown with its model. */
export function addHiddenAliases({ model_group_alias }: ForeignFields, draft: Draft): void {
  for (const [alias, to] of Object.entries(foreignFields(model_group_alias))) {
    const name = nonEmptyText(foreignFields(to)["model"]);
    if (name === undefined || !isHidden(to) || !draft.has(name)) continue;
    const { targets, more, fallback } = draft.model(name);
    Object.assign(draft.model(alias), {
      targets: [...targets],
      more: { ...more, public: false },
      fallback: [...fallback],
    });
  }
}

/** Fallbacks of models that are not named. */
interface DefaultFallbacks {
  /** For every model without its own. */
  readonly usual: readonly string[];
  /** For every model, after its own. */
  readonly last: readonly string[];
}

export function readRouterSettings(fields: ForeignFields, draft: Draft): DefaultFallbacks {
  const { routing_strategy, model_group_alias } = fields;
  const timeout = numberAt(fields, "timeout", "router_settings.", draft, { positive: true });
  const allowedFails = numberAt(fields, "allowed_fails", "router_settings.", draft, { whole: true });
  const cooldownTime = numberAt(fields, "cooldown_time", "router_settings.", draft);
  const strategy = nonEmptyText(routing_strategy);
  const balance = strategy === undefined ? undefined : BALANCES[strategy];
  if (strategy !== undefined && balance === undefined)
    draft.reportLost(
      "router_settings.routing_strategy",
      `balance: has weighted, latency and cheapest, not ${strategy}`,
    );
  if (balance !== undefined && balance !== "weighted")
    for (const name of draft.names)
      if (draft.model(name).targets.length > 1) draft.model(name).more["balance"] = balance;
  for (const [alias, to] of Object.entries(foreignFields(model_group_alias))) {
    const name = nonEmptyText(to) ?? nonEmptyText(foreignFields(to)["model"]);
    if (name !== undefined && draft.has(name) && isHidden(to)) continue;
    if (name !== undefined && draft.has(name)) draft.model(name).aliases.push(alias);
    else draft.reportLost(`router_settings.model_group_alias.${alias}`, NO_SUCH_MODEL);
  }
  const usual = readFallbacks(fields["fallbacks"], "router_settings.fallbacks", draft);
  const last = readDefaultFallbacks(fields["default_fallbacks"], "router_settings.default_fallbacks", draft);
  readRetries(fields, "router_settings.", draft);
  if (timeout !== undefined) draft.sections["timeouts"] = { total: `${timeout}s` };
  const health = {
    ...(allowedFails !== undefined && allowedFails > 0 && { failures: allowedFails }),
    ...(cooldownTime !== undefined &&
      cooldownTime > 0 && { open: `${cooldownTime}s`, longest: `${Math.max(cooldownTime, 30)}s` }),
  };
  for (const name of ["allowed_fails", "cooldown_time"])
    if (Number(fields[name]) === 0)
      draft.reportLost(`router_settings.${name}`, "targets that fail rest: use health: { failures: 1, open: 1s }");
  if (Object.keys(health).length > 0) draft.sections["health"] = health;
  const known = [
    "routing_strategy",
    "num_retries",
    "timeout",
    "model_group_alias",
    "allowed_fails",
    "cooldown_time",
    "fallbacks",
    "default_fallbacks",
  ];
  draft.reportUnknown(fields, known, "router_settings.");
  return { usual, last };
}

function readRetries(fields: ForeignFields, path: string, draft: Draft): void {
  const retries = numberAt(fields, "num_retries", path, draft, { whole: true });
  if (retries === undefined) return;
  draft.sections["retry"] ??= { attempts: Math.min(MAX_RETRIES, retries) };
  if (retries > MAX_RETRIES) draft.reportLost(`${path}num_retries`, `retry: { attempts } is at most ${MAX_RETRIES}`);
}

/**
 * Converts the general settings.
 * @param given from the router's settings
 * @param special models for other purposes than text responses, for which no other model is a substitute
 */
export function readLitellmSettings(
  fields: ForeignFields,
  given: DefaultFallbacks,
  special: ReadonlySet<string>,
  draft: Draft,
): void {
  const more = readFallbacks(fields["fallbacks"], "litellm_settings.fallbacks", draft);
  const last = readDefaultFallbacks(fields["default_fallbacks"], "litellm_settings.default_fallbacks", draft);
  for (const name of draft.names) {
    const { fallback } = draft.model(name);
    if (special.has(name)) continue;
    if (fallback.length === 0) fallback.push(...given.usual, ...more);
    fallback.push(...given.last, ...last);
  }
  readRetries(fields, "litellm_settings.", draft);
  const timeout = numberAt(fields, "request_timeout", "litellm_settings.", draft, { positive: true });
  if (timeout !== undefined) draft.sections["timeouts"] ??= { total: `${timeout}s` };
  const budget = budgetOf(fields);
  if (budget !== undefined) draft.sections["limits"] = { all: { budget } };
  const known = [
    "fallbacks",
    "default_fallbacks",
    "num_retries",
    "request_timeout",
    ...(budget === undefined ? [] : ["max_budget", "budget_duration"]),
  ];
  // Unsupported fields are dropped here, and named in the response.
  draft.reportUnknown(withoutDefaults(fields), known, "litellm_settings.");
}

/** Durations of budgets that are periods here. */
const PERIODS: Readonly<Record<string, string>> = {
  ...{ "24h": "day", "1d": "day", "7d": "week", "1w": "week" },
  ...{ "30d": "month", "31d": "month", "1mo": "month" },
};

/** The budget of all requests, like `$500/month`; undefined where its period has no counterpart. */
function budgetOf({ max_budget, budget_duration }: ForeignFields): string | undefined {
  const period = PERIODS[String(budget_duration)];
  const most = Number(max_budget ?? Number.NaN);
  return period === undefined || !(most > 0) ? undefined : `$${most}/${period}`;
}

export function readGeneralSettings(fields: ForeignFields, draft: Draft): void {
  const master = nonEmptyText(fields["master_key"]);
  if (master !== undefined) {
    const variable = /^os\.environ\/(\w+)$/.exec(master)?.[1];
    if (variable === undefined)
      draft.reportLost(
        "general_settings.master_key",
        "the file contains it: put it into the variable LITELLM_MASTER_KEY",
      );
    draft.sections["keys"] = { master: { key: `$${variable ?? "LITELLM_MASTER_KEY"}` } };
  }
  draft.reportUnknown(
    fields,
    ["master_key"],
    "general_settings.",
    "keys, spend and logs are in the store: see keys and usage",
  );
}
