import { Draft, type ForeignFields, fieldsOf, type KnownVendor, listOf, textOf, withVersion } from "./draft.ts";

const TARGET = [
  "provider",
  "api_key",
  "virtual_key",
  "custom_host",
  "weight",
  "override_params",
  "name",
  "targets",
  "strategy",
];
const SHARED = ["strategy", "targets", "retry", "request_timeout"];

/** Converts a gateway config of Portkey: to one model, `default`, that does what the config defines. */
export default function portkey(file: unknown, vendors: readonly KnownVendor[]) {
  const draft = new Draft(vendors, (text) => /^(?:\$\{?|\{\{\s*|env\.)(\w+)\s*\}{0,2}$/.exec(text)?.[1]);
  const config = fieldsOf(file);
  group(config, "default", "", draft);
  const attempts = fieldsOf(config["retry"])["attempts"];
  if (typeof attempts === "number") draft.sections["retry"] = { attempts: Math.min(9, attempts) };
  draft.loseOthers(fieldsOf(config["retry"]), ["attempts"], "retry.", "docs/decisions/0002 says what is tried again");
  const timeout = config["request_timeout"];
  if (typeof timeout === "number") draft.sections["timeouts"] = { total: `${timeout}ms` };
  const known = listOf(config["targets"]).length > 0 ? SHARED : [...SHARED, ...TARGET];
  draft.loseOthers(config, known, "");
  return draft.result();
}

/** Converts a config with targets to a model of that name; one without is a target itself. */
function group(config: ForeignFields, name: string, path: string, draft: Draft): void {
  const targets = listOf(config["targets"]).map(fieldsOf);
  const all = targets.length > 0 ? targets : [config];
  const mode = textOf(fieldsOf(config["strategy"])["mode"]) ?? "single";
  if (!["single", "fallback", "loadbalance"].includes(mode))
    draft.lose(`${path}strategy.mode`, `a model is served by weights and fallbacks, not by ${mode}: write a plugin`);
  draft.loseOthers(fieldsOf(config["strategy"]), ["mode"], `${path}strategy.`);
  for (const [at, target] of all.entries()) {
    const here = targets.length > 0 ? `${path}targets.${at}` : path.replace(/\.$/, "");
    const own = mode === "fallback" && at > 0 ? `${name}-${at + 1}` : name;
    if (listOf(target["targets"]).length > 0) group(target, own, `${here}.`, draft);
    else one(target, own, here, draft);
    if (own !== name) draft.model(name).fallback.push(own);
    if (targets.length > 0) draft.loseOthers(target, TARGET, `${here}.`);
  }
}

function one(target: ForeignFields, name: string, path: string, draft: Draft): void {
  const override = fieldsOf(target["override_params"]);
  const slug = /^@[^/]+\/(.+)$/.exec(textOf(override["model"]) ?? "")?.[1];
  const model = slug ?? textOf(override["model"]);
  const vendor = textOf(target["provider"])?.replace(/^@/, "");
  if (vendor === undefined) {
    draft.lose(path || "(the config)", "a virtual key says nothing of its vendor here: name provider and api_key");
    return;
  }
  if (model === undefined) {
    draft.lose(
      path || "(the config)",
      "a target is one model, and override_params names none: add the models that you use",
    );
    return;
  }
  const host = textOf(target["custom_host"]);
  const provider = draft.provider({
    ...{ vendor, credential: textOf(target["api_key"]), path },
    url: host === undefined ? undefined : withVersion(host),
  });
  if (provider === undefined) return;
  const weight = target["weight"];
  draft
    .model(name)
    .targets.push({ to: `${provider}:${model}`, ...(typeof weight === "number" && weight > 0 && { weight }) });
  draft.loseOthers(override, ["model"], `${path}.override_params.`, "clients say it themselves, or a plugin does");
}
