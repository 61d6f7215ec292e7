import { Draft, type ForeignFields, foreignFields, foreignList, type KnownVendor, nonEmptyText } from "./draft.ts";

const HINTS = {
  max_retries: "use retry: { attempts: … }, for all providers",
  proxy_config: "set the variables HTTPS_PROXY and NO_PROXY",
  governance: "limits and budgets: docs/limits.md; keys are made with: keys create NAME",
};

/** Converts a config.json of Bifrost. Its clients request `vendor/model`, which keeps working. */
export default function bifrost(file: unknown, vendors: readonly KnownVendor[]) {
  const draft = new Draft(vendors, (text) => /^env\.(\w+)$/.exec(text)?.[1], HINTS);
  const { providers, $schema: _, client, ...others } = foreignFields(file);
  const served = Object.entries(foreignFields(providers)).flatMap(([vendor, entry]) =>
    addAccount(vendor, foreignFields(entry), draft),
  );
  addPlainNames(served, draft);
  draft.reportUnknown(foreignFields(client), [], "client.");
  draft.reportUnknown(others, [], "", "there is nothing like it in gateway.yaml");
  return draft.result();
}

/** A model of an account, which clients may also request without its vendor. */
interface ServedModel {
  readonly vendor: string;
  readonly model: string;
  readonly path: string;
}

/** Lets clients leave the vendor out, where that does not name another model. */
function addPlainNames(served: readonly ServedModel[], draft: Draft): void {
  const meant = new Map(draft.names.map((name) => [name, name]));
  for (const { vendor, model, path } of served) {
    const full = `${vendor}/${model}`;
    const other = meant.get(model) ?? full;
    if (other !== full) draft.reportLost(`${path} (${model})`, `without a vendor, the name is that of ${other}`);
    else if (!meant.has(model)) draft.model(full).aliases.push(model);
    meant.set(model, other);
  }
}

/** Returns its models. */
function addAccount(vendor: string, entry: ForeignFields, draft: Draft): ServedModel[] {
  const served: ServedModel[] = [];
  const path = `providers.${vendor}`;
  const network = foreignFields(entry["network_config"]);
  const room = foreignFields(entry["concurrency_and_buffer_size"])["concurrency"];
  const seconds = network["default_request_timeout_in_seconds"];
  const base = nonEmptyText(network["base_url"]);
  const url = base === undefined ? undefined : draft.withVersionOf(vendor, base);
  const wanted = {
    ...(typeof room === "number" && room > 0 && { concurrency: room }),
    ...(typeof seconds === "number" && seconds > 0 && { timeouts: { total: `${seconds}s` } }),
  };
  const keys = foreignList(entry["keys"]);
  if (keys.length === 0) draft.reportLost(path, "it names no models: add the provider, and those that you use");
  for (const [at, each] of keys.entries()) {
    const key = foreignFields(each);
    const here = `${path}.keys.${at}`;
    const secret = nonEmptyText(key["value"]) ?? nonEmptyText(foreignFields(key["value"])["env_var"]);
    const models = foreignList(key["models"])
      .flatMap((model) => nonEmptyText(model) ?? [])
      .filter((model) => model !== "*");
    if (models.length === 0) {
      draft.reportLost(`${here}.models`, "it means every model of the vendor: name those that you use");
      continue;
    }
    const provider = draft.provider({ vendor, credential: secret, url, path: here, wanted });
    if (provider === undefined) continue;
    for (const model of models) {
      const weight = draft.weight(key["weight"], `${here}.weight`);
      draft.addTarget(`${vendor}/${model}`, `${provider}:${model}`, weight);
      served.push({ vendor, model, path: `${here}.models` });
    }
    draft.reportUnknown(key, ["id", "name", "value", "models", "weight"], `${here}.`);
  }
  const known = ["keys", "network_config", "concurrency_and_buffer_size"];
  draft.reportUnknown(entry, known, `${path}.`);
  draft.reportUnknown(network, ["base_url", "default_request_timeout_in_seconds"], `${path}.network_config.`);
  return served;
}
