import { Draft, type ForeignFields, fieldsOf, type KnownVendor, listOf, textOf, withVersion } from "./draft.ts";

/** Converts a config.json of Bifrost. Its clients request `vendor/model`, which keeps working. */
export default function bifrost(file: unknown, vendors: readonly KnownVendor[]) {
  const draft = new Draft(vendors, (text) => /^env\.(\w+)$/.exec(text)?.[1]);
  const { providers, $schema: _, client, ...others } = fieldsOf(file);
  for (const [vendor, entry] of Object.entries(fieldsOf(providers))) account(vendor, fieldsOf(entry), draft);
  draft.loseOthers(fieldsOf(client), [], "client.");
  draft.loseOthers(others, [], "", "there is nothing like it in gateway.yaml: see docs/limits.md and keys");
  return draft.result();
}

function account(vendor: string, entry: ForeignFields, draft: Draft): void {
  const path = `providers.${vendor}`;
  const network = fieldsOf(entry["network_config"]);
  const room = fieldsOf(entry["concurrency_and_buffer_size"])["concurrency"];
  const seconds = network["default_request_timeout_in_seconds"];
  const base = textOf(network["base_url"]);
  const native = draft.vendor(vendor)?.provider.url;
  const url =
    base === undefined ? undefined : withVersion(base, native === undefined ? "/v1" : new URL(native).pathname);
  const wanted = {
    ...(typeof room === "number" && room > 0 && { concurrency: room }),
    ...(typeof seconds === "number" && seconds > 0 && { timeouts: { total: `${seconds}s` } }),
  };
  for (const [at, each] of listOf(entry["keys"]).entries()) {
    const key = fieldsOf(each);
    const here = `${path}.keys.${at}`;
    const secret = textOf(key["value"]) ?? textOf(fieldsOf(key["value"])["env_var"]);
    const models = listOf(key["models"])
      .flatMap((model) => textOf(model) ?? [])
      .filter((model) => model !== "*");
    if (models.length === 0) {
      draft.lose(`${here}.models`, "it takes every model of the vendor: name those that you use");
      continue;
    }
    const provider = draft.provider({ vendor, credential: secret, url, path: here, wanted });
    if (provider === undefined) continue;
    const weight = key["weight"];
    for (const model of models) {
      const own = draft.model(`${vendor}/${model}`);
      own.targets.push({ to: `${provider}:${model}`, ...(typeof weight === "number" && weight > 0 && { weight }) });
      if (!own.aliases.includes(model) && !draft.has(model)) own.aliases.push(model);
    }
    draft.loseOthers(key, ["id", "name", "value", "models", "weight"], `${here}.`);
  }
  const known = ["keys", "network_config", "concurrency_and_buffer_size"];
  draft.loseOthers(entry, known, `${path}.`);
  draft.loseOthers(network, ["base_url", "default_request_timeout_in_seconds"], `${path}.network_config.`);
}
