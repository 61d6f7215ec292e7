import { Draft, type ForeignFields, fieldsOf, type KnownVendor, listOf, textOf, withVersion } from "./draft.ts";

/** The client's model names that each route serves. */
const ROUTES: Readonly<Record<string, readonly string[]>> = { default: ["claude-*"], background: ["claude-haiku-*"] };

/** Converts a config.json of claude-code-router: the client's model names are routed as its routes define. */
export default function claudeCodeRouter(file: unknown, vendors: readonly KnownVendor[]) {
  const draft = new Draft(vendors, (text) => /^\$\{?(\w+)\}?$/.exec(text)?.[1]);
  const config = fieldsOf(file);
  for (const [at, each] of listOf(config["Providers"] ?? config["providers"]).entries())
    account(fieldsOf(each), `Providers.${at}`, draft);
  for (const [route, to] of Object.entries(fieldsOf(config["Router"]))) {
    const [, model] = /^[^,]+,(.+)$/.exec(String(to)) ?? [];
    const names = ROUTES[route];
    if (model === undefined || names === undefined || !draft.has(model))
      draft.lose(`Router.${route}`, "a model is chosen by its name here: name it in the client, or write a plugin");
    else draft.model(model).aliases.push(...names);
  }
  const { HOST = "127.0.0.1", PORT, APIKEY, API_TIMEOUT_MS } = config;
  if (typeof PORT === "number" || typeof PORT === "string") draft.sections["listen"] = `${String(HOST)}:${PORT}`;
  if (typeof APIKEY === "string" && APIKEY !== "") {
    const variable = /^\$\{?(\w+)\}?$/.exec(APIKEY)?.[1];
    if (variable === undefined) draft.lose("APIKEY", "it stands in the file: put it into the variable CCR_API_KEY");
    draft.sections["keys"] = { router: { key: `$${variable ?? "CCR_API_KEY"}` } };
  }
  if (Number(API_TIMEOUT_MS) > 0) draft.sections["timeouts"] = { total: `${Number(API_TIMEOUT_MS)}ms` };
  const known = ["Providers", "providers", "Router", "HOST", "PORT", "APIKEY", "API_TIMEOUT_MS", "LOG", "LOG_LEVEL"];
  draft.loseOthers(config, known, "");
  return draft.result();
}

function account({ name, api_base_url, api_key, models, ...others }: ForeignFields, path: string, draft: Draft): void {
  const url = textOf(api_base_url);
  const vendor = textOf(name) ?? `provider-${path.split(".").at(-1)}`;
  // The address of a vendor's own protocol, which the router supports with a transformer.
  const native = url !== undefined && /\/v1beta\/models\/?$/.test(url);
  const address = native ? url.replace(/\/models\/?$/, "") : url && withVersion(url);
  const protocol = native ? "gemini" : url?.endsWith("/messages") ? "anthropic-messages" : "openai-chat";
  const known = draft.vendor(vendor)?.provider.url === address;
  const provider = draft.provider({
    ...{ vendor, credential: textOf(api_key), url: address, path },
    more: known ? {} : { protocol },
  });
  if (provider === undefined) return;
  for (const model of listOf(models)) {
    const id = textOf(model);
    if (id !== undefined) draft.model(id).targets.push({ to: `${provider}:${id}` });
  }
  draft.loseOthers(others, [], `${path}.`, "translation needs none; what a vendor wants beyond it a plugin can do");
}
