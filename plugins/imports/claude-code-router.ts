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

/** Where the router listens if its file does not say it. */
const USUAL_PORT = 3456;

const variableOf = (text: string): string | undefined => /^\$\{?(\w+)\}?$/.exec(text)?.[1];

/** Converts a config.json of claude-code-router: the client's model names are routed as its routes define. */
export default function claudeCodeRouter(file: unknown, vendors: readonly KnownVendor[]) {
  const draft = new Draft(vendors, variableOf, { PROXY_URL: "set the variables HTTPS_PROXY and NO_PROXY" });
  const config = foreignFields(file);
  const names = new Map<string, string>();
  for (const [at, each] of foreignList(config["Providers"] ?? config["providers"]).entries())
    addAccount(foreignFields(each), `Providers.${at}`, names, draft);
  for (const [route, to] of Object.entries(foreignFields(config["Router"]))) {
    const model = names.get(String(to));
    const aliases = ROUTE_ALIASES[route];
    if (model === undefined || aliases === undefined)
      draft.reportLost(`Router.${route}`, "models are chosen by name: name the model in the client, or write a plugin");
    else draft.model(model).aliases.push(...aliases);
  }
  const { APIKEY, API_TIMEOUT_MS, LOG_LEVEL } = config;
  const host = nonEmptyText(config["HOST"]) ?? "127.0.0.1";
  const port = String(config["PORT"] ?? USUAL_PORT);
  draft.sections["listen"] = `${host.includes(":") ? `[${host}]` : addressPart(host)}:${addressPart(port)}`;
  if (LOG_LEVEL !== undefined) draft.sections["log"] = { level: LOG_LEVEL };
  if (typeof APIKEY === "string" && APIKEY !== "") {
    const variable = variableOf(APIKEY);
    if (variable === undefined)
      draft.reportLost("APIKEY", "the file contains it: put it into the variable CCR_API_KEY");
    draft.sections["keys"] = { router: { key: `$${variable ?? "CCR_API_KEY"}` } };
  }
  if (Number(API_TIMEOUT_MS) > 0) draft.sections["timeouts"] = { total: `${Number(API_TIMEOUT_MS)}ms` };
  else if (API_TIMEOUT_MS !== undefined) draft.reportLost("API_TIMEOUT_MS", "it is not written as a number above 0");
  const known = ["Providers", "providers", "Router", "HOST", "PORT", "APIKEY", "API_TIMEOUT_MS", "LOG", "LOG_LEVEL"];
  draft.reportUnknown(config, known, "");
  return draft.result();
}

/** @param names gets the name of each model here, by the router's `provider,model` */
function addAccount(
  { name, api_base_url, api_key, models, ...others }: ForeignFields,
  path: string,
  names: Map<string, string>,
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
    if (id === undefined) continue;
    // Of another provider, as the router does not distribute requests over providers.
    const own = draft.has(id) ? `${vendor}/${id}` : id;
    if (own !== id)
      draft.reportLost(`${path}.models (${id})`, `another provider has a model of this name: it is ${own}`);
    draft.addTarget(own, `${provider}:${id}`, undefined);
    names.set(`${vendor},${id}`, own);
  }
  draft.reportUnknown(others, [], `${path}.`, "translation needs none; what a vendor wants beyond it a plugin can do");
}

/** Returns a host or a port; a variable is written in braces, as the address goes on after it. */
function addressPart(text: string): string {
  const variable = variableOf(text);
  return variable === undefined ? text : `\${${variable}}`;
}
