import {
  Draft,
  type ForeignFields,
  foreignFields,
  foreignList,
  type KnownVendor,
  nonEmptyText,
  withVersion,
} from "./draft.ts";

const TARGET_MEMBERS = [
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
const HINTS = { cache: "use a plugin, like examples/cache.ts" };
const GROUP_MEMBERS = ["strategy", "targets", "retry", "request_timeout"];

/** Converts a gateway config of Portkey: to one model, `default`, that does what the config defines. */
export default function portkey(file: unknown, vendors: readonly KnownVendor[]) {
  const draft = new Draft(vendors, (text) => /^(?:\$\{?|\{\{\s*|env\.)(\w+)\s*\}{0,2}$/.exec(text)?.[1], HINTS);
  const config = foreignFields(file);
  addGroup(config, "default", "", draft);
  const attempts = foreignFields(config["retry"])["attempts"];
  if (typeof attempts === "number") draft.sections["retry"] = { attempts: Math.min(9, attempts) };
  draft.reportUnknown(
    foreignFields(config["retry"]),
    ["attempts"],
    "retry.",
    "see docs/decisions/0002 for what is retried",
  );
  const timeout = config["request_timeout"];
  if (typeof timeout === "number") draft.sections["timeouts"] = { total: `${timeout}ms` };
  const known = foreignList(config["targets"]).length > 0 ? GROUP_MEMBERS : [...GROUP_MEMBERS, ...TARGET_MEMBERS];
  draft.reportUnknown(config, known, "");
  return draft.result();
}

/**
 * Converts a config with targets to a model of that name; one without is a target itself.
 * @param share its weight in a group above it; undefined: there is none
 */
function addGroup(config: ForeignFields, name: string, path: string, draft: Draft, share?: number): void {
  const targets = foreignList(config["targets"]).map(foreignFields);
  const all = targets.length > 0 ? targets : [config];
  const mode = nonEmptyText(foreignFields(config["strategy"])["mode"]) ?? "single";
  if (!["single", "fallback", "loadbalance"].includes(mode))
    draft.reportLost(`${path}strategy.mode`, `models have weights and fallbacks, not ${mode}: write a plugin`);
  draft.reportUnknown(foreignFields(config["strategy"]), ["mode"], `${path}strategy.`);
  const here = (at: number) => (targets.length > 0 ? `${path}targets.${at}.` : path);
  const weights = all.map((target, at) =>
    mode === "loadbalance" ? draft.weight(target["weight"], `${here(at)}weight`) : undefined,
  );
  const sum = weights.reduce((sum: number, weight = 1) => sum + weight, 0);
  for (const [at, target] of all.entries()) {
    const own = mode === "fallback" && at > 0 ? `${name}-${at + 1}` : name;
    const isGroup = foreignList(target["targets"]).length > 0;
    const ownWeight = isGroup ? (weights[at] ?? 1) : weights[at];
    const part = share === undefined ? ownWeight : Number(((share * (ownWeight ?? 1)) / sum).toFixed(4));
    const weight = mode === "loadbalance" ? part : own === name ? share : undefined;
    if (isGroup) addGroup(target, own, here(at), draft, weight);
    else addTarget(target, own, here(at), draft, weight);
    if (own !== name) draft.model(name).fallback.push(own);
    if (targets.length > 0) draft.reportUnknown(target, TARGET_MEMBERS, here(at));
  }
}

/** @param path of its members in the file */
function addTarget(target: ForeignFields, name: string, path: string, draft: Draft, weight: number | undefined): void {
  const override = foreignFields(target["override_params"]);
  const slug = /^@[^/]+\/(.+)$/.exec(nonEmptyText(override["model"]) ?? "")?.[1];
  const model = slug ?? nonEmptyText(override["model"]);
  const vendor = nonEmptyText(target["provider"])?.replace(/^@/, "");
  const here = path.replace(/\.$/, "") || "(the config)";
  if (vendor === undefined) {
    draft.reportLost(here, "the vendor of a virtual key is not known: name provider and api_key");
    return;
  }
  if (model === undefined) {
    draft.reportLost(here, "a target is one model, and override_params names none: add the models that you use");
    return;
  }
  const host = nonEmptyText(target["custom_host"]);
  const provider = draft.provider({
    ...{ vendor, credential: nonEmptyText(target["api_key"]), path: here },
    url: host === undefined ? undefined : withVersion(host),
  });
  if (provider === undefined) return;
  if (target["virtual_key"] !== undefined && target["api_key"] === undefined)
    draft.reportLost(`${path}virtual_key`, `Portkey has its key: put it into the variable of the provider ${provider}`);
  draft.addTarget(name, `${provider}:${model}`, weight);
  draft.reportUnknown(override, ["model"], `${path}override_params.`, "clients say it themselves, or a plugin does");
}
