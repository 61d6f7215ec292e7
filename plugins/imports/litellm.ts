import {
  Draft,
  type ForeignFields,
  foreignFields,
  foreignList,
  type KnownVendor,
  nonEmptyText,
  numberAt,
  numberOf,
  withVersion,
} from "./draft.ts";
import { HINTS, withoutDefaults } from "./litellm.hints.ts";
import { addHiddenAliases, readGeneralSettings, readLitellmSettings, readRouterSettings } from "./litellm.settings.ts";

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
/** Routes of LiteLLM's before the name of a deployment. */
const ROUTE = /^(?:responses|o_series|gpt5_series)\//;
/** Hosts of Azure that serve its OpenAI API for all deployments; others serve one model with the API that their path begins. */
const AZURE_OPENAI = /\.(?:openai\.azure\.com|services\.ai\.azure\.com|cognitiveservices\.azure\.com)$/;

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
