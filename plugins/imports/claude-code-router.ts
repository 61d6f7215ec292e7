import {
  Draft,
  type ForeignFields,
  foreignFields,
  foreignList,
  type KnownVendor,
  nonEmptyText,
  withVersion,
} from "./draft.ts";

/** The client's model names that each route serves. */
const ROUTE_ALIASES: Readonly<Record<string, readonly string[]>> = {
  default: ["claude-*"],
  background: ["claude-haiku-*"],
};

const variableOf = (text: string): string | undefined => /^\$\{?(\w+)\}?$/.exec(text)?.[1];

/** Converts a config.json of claude-code-router: the client's model names are routed as its routes define. */
export default function claudeCodeRouter(file: unknown, vendors: readonly KnownVendor[]) {
  const draft = new Draft(vendors, variableOf, { PROXY_URL: "set the variables HTTPS_PROXY and NO_PROXY" });
  const config = foreignFields(file);
  for (const [at, each] of foreignList(config["Providers"] ?? config["providers"]).entries())
    addAccount(foreignFields(each), `Providers.${at}`, draft);
  for (const [route, to] of Object.entries(foreignFields(config["Router"]))) {
    const [, model] = /^[^,]+,(.+)$/.exec(String(to)) ?? [];
    const names = ROUTE_ALIASES[route];
    if (model === undefined || names === undefined || !draft.has(model))
      draft.reportLost(`Router.${route}`, "models are chosen by name: name the model in the client, or write a plugin");
    else draft.model(model).aliases.push(...names);
  }
  const { HOST = "127.0.0.1", PORT, APIKEY, API_TIMEOUT_MS } = config;
  if (typeof PORT === "number" || typeof PORT === "string") draft.sections["listen"] = `${String(HOST)}:${PORT}`;
  if (typeof APIKEY === "string" && APIKEY !== "") {
    const variable = variableOf(APIKEY);
    if (variable === undefined)
      draft.reportLost("APIKEY", "the file contains it: put it into the variable CCR_API_KEY");
    draft.sections["keys"] = { router: { key: `$${variable ?? "CCR_API_KEY"}` } };
  }
  if (Number(API_TIMEOUT_MS) > 0) draft.sections["timeouts"] = { total: `${Number(API_TIMEOUT_MS)}ms` };
  const known = ["Providers", "providers", "Router", "HOST", "PORT", "APIKEY", "API_TIMEOUT_MS", "LOG", "LOG_LEVEL"];
  draft.reportUnknown(config, known, "");
  return draft.result();
}

function addAccount(
  { name, api_base_url, api_key, models, ...others }: ForeignFields,
  path: string,
  draft: Draft,
): void {
  const url = nonEmptyText(api_base_url);
  const vendor = nonEmptyText(name) ?? `provider-${path.split(".").at(-1)}`;
  // The address of a vendor's own protocol, which the router supports with a transformer.
  const native = url !== undefined && /\/v1beta\/models\/?$/.test(url);
  const address = native ? url.replace(/\/models\/?$/, "") : url && withVersion(url);
  const protocol = native ? "gemini" : url?.endsWith("/messages") ? "anthropic-messages" : "openai-chat";
  const known = draft.vendor(vendor)?.provider.url === address;
  const provider = draft.provider({
    ...{ vendor, credential: nonEmptyText(api_key), url: address, path },
    more: known ? {} : { protocol },
  });
  if (provider === undefined) return;
  for (const model of foreignList(models)) {
    const id = nonEmptyText(model);
    if (id !== undefined) draft.addTarget(id, `${provider}:${id}`, undefined);
  }
  draft.reportUnknown(others, [], `${path}.`, "translation needs none; what a vendor wants beyond it a plugin can do");
}
