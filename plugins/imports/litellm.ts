import {
  Draft,
  type ForeignFields,
  foreignFields,
  foreignList,
  type Hint,
  type KnownVendor,
  nonEmptyText,
  withVersion,
} from "./draft.ts";

/** Vendors whose requests are signed, or whose addresses need more than a key. */
const SIGNING_VENDORS =
  /^(?:bedrock|bedrock_converse|sagemaker|sagemaker_chat|vertex_ai|vertex_ai_beta|watsonx|oci|snowflake)$/;
/** Model names without a vendor prefix. */
const VENDOR_BY_MODEL: readonly [RegExp, string][] = [
  [/^(?:gpt|o\d|chatgpt|text-embedding|dall-e|whisper|tts|ft:gpt)/, "openai"],
  [/^claude/, "anthropic"],
  [/^gemini/, "gemini"],
  [/^(?:mistral|codestral|ministral)/, "mistral"],
  [/^deepseek/, "deepseek"],
];
/** Names of models for embeddings, of which entries without a `mode` are known to be such. */
const EMBEDDING_NAME = /(?:^|[/:._-])(?:embed(?:ding)?s?|bge|gte|e5|titan-embed|voyage)(?:[/:._-]|$)/i;
/** Members with prices in USD per token, by the name of the rate here. */
const COSTS = {
  input: "input_cost_per_token",
  output: "output_cost_per_token",
  cached: "cache_read_input_token_cost",
  cache_write: "cache_creation_input_token_cost",
};
const KNOWN_PARAMS = [
  ...["model", "api_key", "api_base", "base_url", "custom_llm_provider", "weight", "litellm_credential_name"],
  ...Object.values(COSTS),
  ...["timeout", "request_timeout", "max_parallel_requests", "rpm", "tpm"],
];
const KNOWN_INFO = [
  ...["mode", "base_model", "max_tokens", "max_input_tokens", "max_output_tokens"],
  ...Object.values(COSTS),
];
/** Protocols that a provider needs for deployments of a mode. */
const PROTOCOL_BY_MODE: Readonly<Record<string, string | undefined>> = {
  chat: undefined,
  embedding: "openai-embeddings",
  image_generation: "openai-images",
  completion: "openai-completions",
  responses: "openai-responses",
};
/** Modes of deployments that are substitutes for each other. */
const TEXT_MODES: ReadonlySet<string> = new Set(["chat", "responses"]);
/** Most attempts that `retry:` takes. */
const MAX_RETRIES = 9;
/** Routes of LiteLLM's before the name of a deployment. */
const ROUTE = /^(?:responses|o_series|gpt5_series)\//;
/** Hosts of Azure that serve its OpenAI API for all deployments; others serve one model with the API that their path begins. */
const AZURE_OPENAI = /\.(?:openai\.azure\.com|services\.ai\.azure\.com|cognitiveservices\.azure\.com)$/;
/** Our counterparts of members. */
const HINTS: Readonly<Record<string, Hint>> = {
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
const BALANCES: Readonly<Record<string, string>> = {
  "simple-shuffle": "weighted",
  "least-busy": "latency",
  "latency-based-routing": "latency",
  "cost-based-routing": "cheapest",
};

function sameHint(members: readonly string[], hint: Hint): Record<string, Hint> {
  return Object.fromEntries(members.map((member) => [member, hint]));
}

/** Converts a config.yaml of LiteLLM's proxy. */
export default function litellm(file: unknown, vendors: readonly KnownVendor[]) {
  const draft = new Draft(vendors, (text) => /^os\.environ\/(\w+)$/.exec(text)?.[1], HINTS);
  const { model_list, credential_list, router_settings, litellm_settings, general_settings, ...others } =
    foreignFields(file);
  const credentials = credentialsOf(credential_list);
  for (const [at, entry] of foreignList(credential_list).entries())
    draft.reportUnknown(foreignFields(entry), ["credential_name", "credential_values"], `credential_list.${at}.`);
  const served: ServedDeployment[] = [];
  for (const [at, entry] of foreignList(model_list).entries()) {
    const path = `model_list.${at}`;
    const name = addDeployment(withCredential(foreignFields(entry), path, credentials, draft), path, draft);
    const params = foreignFields(foreignFields(entry)["litellm_params"]);
    if (name !== undefined) served.push({ name, params, path: `${path}.litellm_params.` });
  }
  reportRates(served, draft);
  const usual = readRouterSettings(foreignFields(router_settings), draft);
  const special = foreignList(model_list)
    .map(foreignFields)
    .filter(({ model_info, litellm_params }) => {
      const model = nonEmptyText(foreignFields(litellm_params)["model"]) ?? "";
      return !TEXT_MODES.has(modeOf(foreignFields(model_info), model));
    });
  readLitellmSettings(
    foreignFields(litellm_settings),
    usual,
    new Set(special.map(({ model_name }) => String(model_name))),
    draft,
  );
  addHiddenAliases(foreignFields(router_settings), draft);
  readGeneralSettings(foreignFields(general_settings), draft);
  draft.reportUnknown(others, [], "", "there is nothing like it in gateway.yaml");
  return draft.result();
}

/** Values of named credentials: keys, addresses and versions that entries of models refer to. */
const credentialsOf = (list: unknown): ReadonlyMap<string, ForeignFields> =>
  new Map(
    foreignList(list).flatMap((each) => {
      const { credential_name, credential_values } = foreignFields(each);
      const name = nonEmptyText(credential_name);
      return name === undefined ? [] : [[name, foreignFields(credential_values)] as const];
    }),
  );

/**
 * Returns an entry with the values of the credential that it names, which its own values override. The usual key must not be
 * used instead: it is another account's.
 */
function withCredential(
  entry: ForeignFields,
  path: string,
  credentials: ReadonlyMap<string, ForeignFields>,
  draft: Draft,
): ForeignFields {
  const params = foreignFields(entry["litellm_params"]);
  const name = nonEmptyText(params["litellm_credential_name"]);
  if (name === undefined) return entry;
  const values = credentials.get(name) ?? {};
  const unknown = `os.environ/${name.toUpperCase().replace(/\W/g, "_")}_API_KEY`;
  if (nonEmptyText(values["api_key"]) === undefined && nonEmptyText(params["api_key"]) === undefined)
    draft.reportLost(
      `${path}.litellm_params.litellm_credential_name`,
      `the file has no key of "${name}": put it into the variable ${unknown.slice("os.environ/".length)}`,
    );
  return { ...entry, litellm_params: { api_key: unknown, ...values, ...params } };
}

/** Returns the name of its model; undefined where it cannot be served. */
function addDeployment(
  { model_name, litellm_params, model_info, ...others }: ForeignFields,
  path: string,
  draft: Draft,
): string | undefined {
  const params = foreignFields(litellm_params);
  const info = foreignFields(model_info);
  const name = nonEmptyText(model_name) ?? nonEmptyText(params["model"]);
  const full = nonEmptyText(params["model"]);
  if (name === undefined || full === undefined) {
    draft.reportLost(path, "it has no model");
    return undefined;
  }
  const [vendor, route] = vendorOf(full, nonEmptyText(params["custom_llm_provider"]), draft);
  const model = route.replace(ROUTE, "");
  const mode = route.startsWith("responses/") ? "responses" : modeOf(info, model);
  const isPattern = name.includes("*") || full.includes("*");
  const why = isPattern ? "a target is one model: name those that you use" : whyNotServed(vendor, mode, params, draft);
  if (why !== undefined) {
    draft.reportLost(`${path} (${name})`, why);
    return undefined;
  }
  const provider = addProvider([vendor, model], params, `${path}.litellm_params`, PROTOCOL_BY_MODE[mode], draft);
  if (provider === undefined) return undefined;
  const price = priceOf(info, params, path, draft);
  const via = mode === "responses" ? { via: PROTOCOL_BY_MODE[mode] } : {};
  const weight = draft.weight(
    numberAt(params, "weight", `${path}.litellm_params.`, draft),
    `${path}.litellm_params.weight`,
  );
  draft.addTarget(name, `${provider}:${model}`, weight, { ...via, ...price });
  const base = nonEmptyText(info["base_model"])?.replace(/^.*\//, "");
  if (base !== undefined && base !== model && !("price" in price))
    draft.reportLost(
      `${path}.model_info.base_model`,
      `prices are those of the name "${model}" here: give the target the price of ${base}, price: { input: …, output: … }, as models --prices shows it`,
    );
  draft.reportUnknown(others, [], `${path}.`);
  draft.reportUnknown(
    withoutDefaults(params),
    KNOWN_PARAMS,
    `${path}.litellm_params.`,
    "a target has nothing like it: clients say it themselves, or limits",
  );
  readInfo(info, name, `${path}.model_info.`, draft);
  return name;
}

/** Returns why the gateway cannot serve requests of a mode at a vendor; undefined: it can. */
function whyNotServed(vendor: string, mode: string, params: ForeignFields, draft: Draft): string | undefined {
  const native = draft.vendor(vendor)?.provider;
  const hasSockets = native?.["websocket"] === true && nonEmptyText(params["api_base"]) === undefined;
  if (mode === "realtime" && !hasSockets) return "its provider needs websocket: true: add it, and the model";
  if (mode !== "realtime" && !Object.hasOwn(PROTOCOL_BY_MODE, mode))
    return `requests of mode ${mode} can only be passed on: paths: { /v1/…: { pass: PROVIDER } }`;
  return SIGNING_VENDORS.test(vendor) ? `${vendor} requires signed requests, which the gateway cannot send` : undefined;
}

/** Models whose rates are shown: each of their deployments is reported with all of them. */
const MAX_SHOWN = 100;

interface ServedDeployment {
  /** Of its model. */
  name: string;
  params: ForeignFields;
  /** Of these, in the file. */
  path: string;
}

/** Reports the rates of deployments: here models have them, or providers. */
function reportRates(deployments: readonly ServedDeployment[], draft: Draft): void {
  const rated = deployments.flatMap(({ name, params, path }) =>
    ["rpm", "tpm"].flatMap((rate) => {
      const value = numberAt(params, rate, path, draft);
      return value === undefined ? [] : [{ name, rate, value, path: `${path}${rate}` }];
    }),
  );
  const models = [...Map.groupBy(rated, ({ name }) => name)].map(([name, own]) => {
    const sums = [...Map.groupBy(own, ({ rate }) => rate)].map(
      ([rate, each]) => `${rate}: ${each.reduce((sum, { value }) => sum + value, 0)}`,
    );
    return `${name}: { ${sums.join(", ")} }`;
  });
  const shown = [...models.slice(0, MAX_SHOWN), ...(models.length > MAX_SHOWN ? ["…"] : [])].join(", ");
  const why = `a target has none: use limits: { models: { ${shown} } }, the sums of their deployments, or providers: for all models of a provider`;
  for (const { path } of rated) draft.reportLost(path, why);
}

/** Imports what is known of a deployment, and reports what is not imported. */
function readInfo(info: ForeignFields, name: string, path: string, draft: Draft): void {
  const { more } = draft.model(name);
  const tokensAt = (field: string) => numberAt(info, field, path, draft, { positive: true, whole: true });
  const lengths = {
    context: tokensAt("max_input_tokens"),
    output: tokensAt("max_output_tokens") ?? tokensAt("max_tokens"),
  };
  for (const [length, tokens] of Object.entries(lengths)) {
    if (tokens === undefined) continue;
    const smallest = Math.min(tokens, numberOf(more[length]) ?? tokens);
    if ((more[length] ?? tokens) !== tokens)
      draft.reportLost(
        path.slice(0, -1),
        `a model has one ${length}: here the smallest of its deployments, ${smallest}`,
      );
    more[length] = smallest;
  }
  const isAbility = (field: string) => field.startsWith("supports_");
  if (Object.keys(info).some(isAbility))
    draft.reportLost(
      `${path}supports_…`,
      `what a model can is taken from public tables; where they are wrong, list all of it: models: { ${name}: { can: [tools, vision] } }`,
    );
  const others = Object.fromEntries(Object.entries(info).filter(([field]) => !isAbility(field)));
  draft.reportUnknown(others, KNOWN_INFO, path);
}

/** Returns members without those that say what is the case here anyway. */
const withoutDefaults = (fields: ForeignFields): ForeignFields =>
  Object.fromEntries(Object.entries(fields).filter(([name, value]) => DEFAULTS[name] !== value));

/** Values of members with which LiteLLM does what the gateway always does. */
const DEFAULTS: ForeignFields = { drop_params: true, set_verbose: false, json_logs: true };

/** Returns a number, which the file may have as a text. */
function numberOf(value: unknown): number | undefined {
  const number = typeof value === "string" && value.trim() !== "" ? Number(value) : value;
  return typeof number === "number" && Number.isFinite(number) ? number : undefined;
}

/** The numbers that make sense for a member; by default, those that are not negative. */
interface NumberRange {
  readonly positive?: boolean;
  readonly whole?: boolean;
}

/** Returns a member that is a number; reports other values, like references to variables, and numbers out of its range. */
function numberAt(
  fields: ForeignFields,
  name: string,
  path: string,
  draft: Draft,
  { positive = false, whole = false }: NumberRange = {},
): number | undefined {
  const value = fields[name];
  if (value === undefined || value === null) return undefined;
  const number = numberOf(value);
  const fits =
    number !== undefined && (positive ? number > 0 : number >= 0) && (!whole || Number.isSafeInteger(number));
  if (fits) return number;
  const range = `a ${whole ? "whole " : ""}number ${positive ? "above" : "of at least"} 0`;
  draft.reportLost(`${path}${name}`, number === undefined ? "it is not written as a number" : `it is not ${range}`);
  return undefined;
}

/** The purpose of a deployment, by default `chat`. */
const modeOf = (info: ForeignFields, model: string): string =>
  nonEmptyText(info["mode"]) ?? (EMBEDDING_NAME.test(model) ? "embedding" : "chat");

function vendorOf(full: string, custom: string | undefined, draft: Draft): [vendor: string, model: string] {
  const slash = full.indexOf("/");
  if (custom !== undefined) return [custom, full.startsWith(`${custom}/`) ? full.slice(slash + 1) : full];
  const first = slash < 0 ? "" : full.slice(0, slash);
  const bare = VENDOR_BY_MODEL.find(([pattern]) => pattern.test(full))?.[1];
  if (slash < 0 || (!draft.vendor(first) && bare !== undefined)) return [bare ?? "openai", full];
  return [first, full.slice(slash + 1)];
}

/** @param speaks a protocol that the deployment needs */
function addProvider(
  [vendor, model]: readonly [vendor: string, model: string],
  params: ForeignFields,
  path: string,
  speaks: string | undefined,
  draft: Draft,
): string | undefined {
  const base = nonEmptyText(params["api_base"]) ?? nonEmptyText(params["base_url"]);
  const credential = nonEmptyText(params["api_key"]);
  const timeout =
    numberAt(params, "timeout", `${path}.`, draft, { positive: true }) ??
    numberAt(params, "request_timeout", `${path}.`, draft, { positive: true });
  const most = numberAt(params, "max_parallel_requests", `${path}.`, draft, { positive: true, whole: true });
  const wanted = {
    ...(timeout !== undefined && { timeouts: { total: `${timeout}s` } }),
    ...(most !== undefined && { concurrency: most }),
  };
  if (base?.startsWith("os.environ/")) {
    const variable = base.slice("os.environ/".length);
    draft.reportLost(
      `${path}.api_base`,
      `the variable must contain the whole URL, with its version segment: ${variable}`,
    );
    return draft.provider({ vendor, credential, url: `$${variable}`, path, wanted, speaks });
  }
  if (/^azure(?:_ai|_text)?$/.test(vendor)) {
    const at = base !== undefined && URL.canParse(base) ? azureAccount(vendor, model, new URL(base)) : undefined;
    if (at === undefined) draft.reportLost(path, "an account at Azure needs its api_base");
    return at && draft.provider({ ...at, credential: credential ?? at.credential, path, wanted, speaks });
  }
  const compatible = draft.vendor(vendor) === undefined && base !== undefined;
  return draft.provider({
    ...{
      vendor,
      credential,
      url: base === undefined ? undefined : draft.withVersionOf(vendor, base),
      path,
      wanted,
      speaks,
    },
    more: compatible ? { protocol: "openai-chat" } : {},
  });
}

/** Where a deployment at Azure is called, and with which key and protocol. */
function azureAccount(vendor: string, model: string, { origin, hostname, pathname }: URL) {
  if (vendor === "azure_ai" && /^claude/i.test(model)) {
    // Claude is served by Anthropic's protocol only, at its prices.
    const url = `${origin}/anthropic/v1`;
    const more = { protocol: "anthropic-messages", vendor: "anthropic" };
    return { vendor, credential: "os.environ/AZURE_AI_API_KEY", url, more };
  }
  if (vendor === "azure_ai" && !AZURE_OPENAI.test(hostname))
    return { vendor, credential: "os.environ/AZURE_AI_API_KEY", url: withVersion(origin + pathname, "") };
  const more = { header: "api-key" };
  return { vendor: "azure", credential: "os.environ/AZURE_API_KEY", url: `${origin}/openai/v1`, more };
}

const NO_SUCH_MODEL = "there is no such model in the file";

/** Converts prices to USD per million tokens, to six decimals, as in gateway.yaml. */
function priceOf(info: ForeignFields, params: ForeignFields, path: string, draft: Draft): ForeignFields {
  const price = Object.entries(COSTS).flatMap(([ours, theirs]) => {
    const each =
      numberAt(params, theirs, `${path}.litellm_params.`, draft) ??
      numberAt(info, theirs, `${path}.model_info.`, draft);
    return each === undefined ? [] : [[ours, Number((each * 1e6).toFixed(6))]];
  });
  return price.length === 0 ? {} : { price: Object.fromEntries(price) };
}

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
function addHiddenAliases({ model_group_alias }: ForeignFields, draft: Draft): void {
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

function readRouterSettings(fields: ForeignFields, draft: Draft): DefaultFallbacks {
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
function readLitellmSettings(
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

function readGeneralSettings(fields: ForeignFields, draft: Draft): void {
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
