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

/** Converts a config with targets to a model of that name; one without is a target itself. */
function addGroup(config: ForeignFields, name: string, path: string, draft: Draft): void {
  const targets = foreignList(config["targets"]).map(foreignFields);
  const all = targets.length > 0 ? targets : [config];
  const mode = nonEmptyText(foreignFields(config["strategy"])["mode"]) ?? "single";
  if (!["single", "fallback", "loadbalance"].includes(mode))
    draft.reportLost(`${path}strategy.mode`, `models have weights and fallbacks, not ${mode}: write a plugin`);
  draft.reportUnknown(foreignFields(config["strategy"]), ["mode"], `${path}strategy.`);
  for (const [at, target] of all.entries()) {
    const here = targets.length > 0 ? `${path}targets.${at}` : path.replace(/\.$/, "");
    const own = mode === "fallback" && at > 0 ? `${name}-${at + 1}` : name;
    if (foreignList(target["targets"]).length > 0) addGroup(target, own, `${here}.`, draft);
    else addTarget(target, own, here, draft);
    if (own !== name) draft.model(name).fallback.push(own);
    if (targets.length > 0) draft.reportUnknown(target, TARGET_MEMBERS, `${here}.`);
  }
}

function addTarget(target: ForeignFields, name: string, path: string, draft: Draft): void {
  const override = foreignFields(target["override_params"]);
  const slug = /^@[^/]+\/(.+)$/.exec(nonEmptyText(override["model"]) ?? "")?.[1];
  const model = slug ?? nonEmptyText(override["model"]);
  const vendor = nonEmptyText(target["provider"])?.replace(/^@/, "");
  if (vendor === undefined) {
    draft.reportLost(path || "(the config)", "the vendor of a virtual key is not known: name provider and api_key");
    return;
  }
  if (model === undefined) {
    draft.reportLost(
      path || "(the config)",
      "a target is one model, and override_params names none: add the models that you use",
    );
    return;
  }
  const host = nonEmptyText(target["custom_host"]);
  const provider = draft.provider({
    ...{ vendor, credential: nonEmptyText(target["api_key"]), path },
    url: host === undefined ? undefined : withVersion(host),
  });
  if (provider === undefined) return;
  draft.addTarget(name, `${provider}:${model}`, target["weight"]);
  draft.reportUnknown(override, ["model"], `${path}.override_params.`, "clients say it themselves, or a plugin does");
}
