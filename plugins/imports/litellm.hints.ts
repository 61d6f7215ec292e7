/** What LiteLLM's members are here, for the messages about those that are not imported. */

import { type ForeignFields, type Hint, numberOf } from "./draft.ts";

/** Most attempts that `retry:` takes. */
export const MAX_RETRIES = 9;

/** Our counterparts of members. */
export const HINTS: Readonly<Record<string, Hint>> = {
  ...sameHint(
    ["redis_host", "redis_port", "redis_password", "redis_url"],
    "for shared limits use store: { limits: $REDIS_URL }",
  ),
  max_budget: (most) => `use limits: { all: { budget: $${numberOf(most) ?? 500}/month } }`,
  budget_duration: "a budget's period is a day, a week or a month",
  ...sameHint(
    ["max_parallel_requests", "global_max_parallel_requests"],
    (most) => `use limits: { all: { concurrency: ${numberOf(most) ?? 200} } }`,
  ),
  max_retries: (retries) => `use retry: { attempts: ${Math.min(MAX_RETRIES, numberOf(retries) ?? 1)} }, for all models`,
  pass_through_endpoints: "use paths: { /prefix/*: { pass: PROVIDER } }",
  enable_jwt_auth: "clients send keys of the gateway; people sign in to the console with admin: { oidc: … }",
  alerting_threshold: "alerts: has fixed rules, none of them for slow answers",
  ui_access_mode: "the console is only on the admin listener; permissions are in admin: { oidc: { roles: … } }",
  ...sameHint(
    ["success_callback", "failure_callback", "callbacks"],
    "use a plugin, like examples/langfuse.ts; /metrics, for Prometheus, is on the admin listener",
  ),
  ...sameHint(["cache", "cache_params"], "use a plugin, like examples/cache.ts"),
  alerting: "use alerts: { webhook: $URL }",
  rpm: (rate) => `use limits: { models: { NAME: { rpm: ${numberOf(rate) ?? 500} } } }`,
  tpm: (rate) => `use limits: { models: { NAME: { tpm: ${numberOf(rate) ?? "1M"} } } }`,
  additional_drop_params:
    "fields that no provider of the protocol takes are dropped; for others use a plugin with request()",
  access_groups: "limit keys to models: keys set KEY --models a,b",
  team_id: "limit keys to models: keys set KEY --models a,b",
  default_team_settings: "teams are groups of keys: keys set KEY --group NAME, and limits: { groups: … }",
  guardrails: "use a plugin, like examples/prompt-guard.ts or examples/moderation.ts",
  extra_headers: "use a plugin, like examples/stamp.ts; forward: of a provider passes headers of clients",
  database_url:
    "keys, spend and logs are in the store: see keys and usage; clients keep the keys in it as keys: { NAME: { hash: … } }, see docs/keys.md",
  environment_variables: "set the variables themselves",
  api_version: "the address that ends with /openai/v1 has no versions",
  drop_params:
    "use paths: { PATH: { strict: true } }, or the header gateway-strict: fields that no target takes are then a 400",
  set_verbose: "use log: { level: debug }",
  headers: "use a plugin, like examples/stamp.ts; forward: of a provider passes headers of clients",
  ...sameHint(
    ["azure_ad_token", "tenant_id", "client_id", "client_secret", "azure_username", "azure_password", "azure_scope"],
    "tokens of Entra ID are not fetched: give the provider an API key of the resource as its credential",
  ),
  ssl_verify: "certificates are always checked: name your own authority in the variable NODE_EXTRA_CA_CERTS",
  ...sameHint(["tags", "tag_regex"], "targets are not chosen by tags; keys have them: keys set KEY --tag NAME=VALUE"),
  keep_alive: "the server itself keeps models loaded, like OLLAMA_KEEP_ALIVE",
  json_logs: "log lines are always JSON",
  id: "a target is named by its provider and model",
  litellm_provider: "the vendor is the one in model: or custom_llm_provider:",
  order: "targets are tried by balance: and weight; put later ones into a separate model, and that into fallback:",
  stream_timeout: "use timeouts:, for all or for a provider",
};

function sameHint(members: readonly string[], hint: Hint): Record<string, Hint> {
  return Object.fromEntries(members.map((member) => [member, hint]));
}

/** Returns members without those that say what is the case here anyway. */
export const withoutDefaults = (fields: ForeignFields): ForeignFields =>
  Object.fromEntries(Object.entries(fields).filter(([name, value]) => DEFAULTS[name] !== value));

/** Values of members with which LiteLLM does what the gateway always does. */
const DEFAULTS: ForeignFields = { drop_params: true, set_verbose: false, json_logs: true };
