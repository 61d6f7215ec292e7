import { matchesAny } from "../core/glob.ts";
import { groupAndParents } from "../core/limits.ts";
import { CREDENTIAL_HEADERS } from "../wire/headers.ts";
import type { ConfigPath, Report } from "./problems.ts";
import { PATH_KINDS, SERVED_PATHS } from "./schema.ts";
import { isKeyAsName } from "./secrets.ts";
import { nearest, unknownNameMessage } from "./suggest.ts";
import { atPath, entries, isMap, items, type YamlValue } from "./tree.ts";

/**
 * Finds names that refer to nothing, or to two things. Accepts values of any shape: an error elsewhere in the file must not hide
 * an undefined name here.
 */
export function checkNames(
  file: YamlValue,
  protocols: ReadonlyMap<string, { paths: readonly string[] }>,
  chains: readonly string[],
  report: Report,
): void {
  const spoken = [...protocols.keys()];
  const usual = [...[...protocols.values()].flatMap(({ paths }) => paths), ...Object.keys(SERVED_PATHS)];
  checkProviders(file, spoken, report);
  checkModels(file, spoken, report);
  checkAliases(file, report);
  // The one name that an object cannot hold reliably; schema validation ignores it.
  for (const section of ["providers", "models", "plugins", "chains", "paths", "keys"])
    if (sectionNames(file, section).includes("__proto__"))
      report({ path: [section, "__proto__"], key: true, message: "not a name" });
  const models = sectionNames(file, "models");
  const limited = entries(atPath(file, "limits", "groups")).map(([name]) => name);
  for (const [key, entry] of entries(atPath(file, "keys"))) {
    checkKey(key, entry, report);
    checkKeyModels(atPath(entry, "models"), ["keys", key, "models"], models, report);
    checkGroup(atPath(entry, "group"), ["keys", key, "group"], limited, report);
  }
  for (const section of ["models", "providers"]) {
    const known = sectionNames(file, section);
    for (const [name] of entries(atPath(file, "limits", section)))
      if (!known.includes(name))
        report({
          path: ["limits", section, name],
          key: true,
          message: unknownNameMessage(section.slice(0, -1), name, known),
        });
  }
  const aggregators = ["plugins", "scrub", "aggregators"];
  checkReferences(atPath(file, ...aggregators), aggregators, "provider", sectionNames(file, "providers"), report);
  const providers = new Map(entries(atPath(file, "providers")));
  for (const [path, entry] of entries(atPath(file, "paths")))
    checkPath(path, entry, { protocols: spoken, chains, providers, usual }, report);
}

const sectionNames = (file: YamlValue, section: string): string[] =>
  entries(atPath(file, section)).map(([name]) => name);

/** Checks the models of a key: a pattern may be meant for future models. */
function checkKeyModels(list: YamlValue, path: ConfigPath, models: readonly string[], report: Report): void {
  // That there are none at all is reported elsewhere.
  if (models.length === 0) return;
  for (const [i, word] of items(list)) {
    if (typeof word !== "string" || models.some((model) => matchesAny([word], model))) continue;
    if (word.includes("*"))
      report({ path: [...path, i], message: `no model matches ${JSON.stringify(word)}`, severity: "warning" });
    else report({ path: [...path, i], message: unknownNameMessage("model", word, models) });
  }
}

/** Warns of a group that is almost one with limits, and so escapes them by a typing error; groups without limits are allowed. */
function checkGroup(group: YamlValue, path: ConfigPath, limited: readonly string[], report: Report): void {
  if (typeof group !== "string") return;
  const levels = groupAndParents(group).toReversed();
  for (const level of levels) {
    if (limited.includes(level)) continue;
    const others = limited.filter(
      (name) => name.split("/").length === level.split("/").length && withoutNumbers(name) !== withoutNumbers(level),
    );
    const near = nearest(level, others);
    if (near === undefined || levels.includes(near)) continue;
    const message = `no limits are set for the group ${JSON.stringify(level)}, did you mean ${JSON.stringify(near)}?`;
    report({ path, message, severity: "warning" });
    return;
  }
}

/** Normalizes numbers: `team-1` and `team-2` are two teams, not a misspelling. */
const withoutNumbers = (name: string): string => name.replaceAll(/\d+/g, "0");

/** Checks each word of a list. */
function checkReferences(
  list: YamlValue,
  path: ConfigPath,
  kind: string,
  known: readonly string[],
  report: Report,
): void {
  for (const [i, word] of items(list)) checkReference(word, [...path, i], kind, known, report);
}

function checkReference(
  word: YamlValue,
  path: ConfigPath,
  kind: string,
  known: readonly string[],
  report: Report,
): void {
  if (typeof word === "string" && !known.includes(word))
    report({ path, message: unknownNameMessage(kind, word, known) });
}

function checkProviders(file: YamlValue, protocols: readonly string[], report: Report): void {
  for (const [name, entry] of entries(atPath(file, "providers"))) {
    if (!isMap(entry)) continue;
    const path = ["providers", name];
    checkReferences(entry["speaks"], [...path, "speaks"], "protocol", protocols, report);
    checkReference(entry["protocol"], [...path, "protocol"], "protocol", protocols, report);
    if ("speaks" in entry && "protocol" in entry)
      report({ path: [...path, "protocol"], key: true, message: '"protocol" is short for "speaks"; keep one' });
    for (const [i, header] of items(entry["forward"]))
      if (typeof header === "string" && CREDENTIAL_HEADERS.has(header.toLowerCase()))
        report({
          path: [...path, "forward", i],
          message: `${header} cannot be forwarded: it carries the gateway key of the client; the provider gets its "credential"`,
        });
    if (!hasSimilarKey(entry, "speaks", "protocol") && typeof entry["url"] === "string" && entry["url"] !== "demo:")
      report({ path, key: true, message: `"speaks" is missing: a list of ${protocols.join(", ")}` });
  }
}

/** Reports whether one of these names is present, even misspelt, which is reported elsewhere. */
const hasSimilarKey = (entry: object, ...wanted: string[]): boolean =>
  Object.keys(entry).some((key) => nearest(key, wanted) !== undefined);

function checkModels(file: YamlValue, protocols: readonly string[], report: Report): void {
  const models = sectionNames(file, "models");
  const providers = sectionNames(file, "providers");
  for (const [id, entry] of entries(atPath(file, "models"))) {
    const path = ["models", id];
    for (const [i, target] of items(atPath(entry, "targets"))) {
      const short = typeof target === "string";
      checkTarget(
        short ? target : atPath(target, "to"),
        [...path, "targets", i, ...(short ? [] : ["to"])],
        providers,
        report,
      );
      if (!short) checkReference(atPath(target, "via"), [...path, "targets", i, "via"], "protocol", protocols, report);
    }
    checkReferences(atPath(entry, "fallback"), [...path, "fallback"], "model", models, report);
    for (const [i, other] of items(atPath(entry, "fallback")))
      if (other === id) report({ path: [...path, "fallback", i], message: "a model cannot fall back to itself" });
    checkReference(atPath(entry, "via"), [...path, "via"], "protocol", protocols, report);
    checkVia(file, entry, path, protocols, report);
  }
}

/** Checks that a provider of the target speaks the protocol of `via`: otherwise it would be ignored silently. */
function checkVia(
  file: YamlValue,
  model: YamlValue,
  path: ConfigPath,
  protocols: readonly string[],
  report: Report,
): void {
  const spoken: string[][] = [];
  const check = (via: YamlValue, spoken: readonly string[][], path: ConfigPath, who: string) => {
    if (typeof via !== "string" || !protocols.includes(via) || spoken.length === 0) return;
    const all = [...new Set(spoken.flat())];
    if (!all.includes(via)) report({ path, message: `${who} not speak ${via}; write one of ${all.join(", ")}` });
  };
  for (const [i, target] of items(atPath(model, "targets"))) {
    const to = typeof target === "string" ? target : atPath(target, "to");
    const [provider = ""] = typeof to === "string" ? to.split(":") : [];
    const entry = atPath(file, "providers", provider);
    const words = atPath(entry, "speaks") ?? [atPath(entry, "protocol")];
    const speaks = items(atPath(entry, "url") === "demo:" ? protocols : words).flatMap(([, word]) => String(word));
    // Errors in the provider itself are reported there.
    if (!speaks.every((word) => protocols.includes(word))) return;
    const own = atPath(target, "via");
    if (own === undefined) spoken.push(speaks);
    else check(own, [speaks], [...path, "targets", i, "via"], `provider ${JSON.stringify(provider)} does`);
  }
  check(atPath(model, "via"), spoken, [...path, "via"], "the providers of its targets do");
}

function checkTarget(target: YamlValue, path: ConfigPath, providers: readonly string[], report: Report): void {
  if (typeof target !== "string") return;
  const colon = target.indexOf(":");
  if (colon < 1 || colon === target.length - 1) {
    report({ path, message: `${JSON.stringify(target)} is not a target; write provider:vendor-model` });
    return;
  }
  const provider = target.slice(0, colon);
  // That there are none at all is reported elsewhere, not for each target.
  if (providers.length > 0 && !providers.includes(provider))
    report({ path, part: { from: 0, length: colon }, message: unknownNameMessage("provider", provider, providers) });
}

/** Checks that each alias refers to one model. */
function checkAliases(file: YamlValue, report: Report): void {
  const ids = new Set(sectionNames(file, "models"));
  const owners = new Map<string, string>();
  for (const [id, entry] of entries(atPath(file, "models")))
    for (const [i, alias] of items(atPath(entry, "aliases"))) {
      if (typeof alias !== "string") continue;
      const path = ["models", id, "aliases", i];
      const owner = owners.get(alias);
      if (ids.has(alias))
        report({
          path,
          message: `${JSON.stringify(alias)} is the name of a model; take another alias, or leave it out`,
        });
      else if (owner !== undefined)
        report({ path, message: `${JSON.stringify(alias)} is an alias of ${JSON.stringify(owner)} already; keep one` });
      else owners.set(alias, id);
    }
}

function checkKey(name: string, entry: YamlValue, report: Report): void {
  const stands = isMap(entry) ? (entry["hash"] === undefined ? entry["key"] : "$OTHER") : entry;
  if (isKeyAsName(name, typeof stands === "string" ? stands : undefined))
    report({
      path: ["keys", name],
      key: true,
      message: "this name may be a key itself; write a name first, and the key below it: NAME: { key: $SECRET }",
    });
  if (!isMap(entry)) return;
  const path = ["keys", name];
  if ("key" in entry && "hash" in entry)
    report({ path: [...path, "hash"], key: true, message: '"key" and "hash" say the same; keep one' });
  if (!hasSimilarKey(entry, "key", "hash"))
    report({ path, key: true, message: '"key" is missing (or "hash": its SHA-256 in hex)' });
}

/** Names that the entry of a path may use; `usual` are the paths that are served by default. */
interface PathNames extends Record<"protocols" | "chains" | "usual", readonly string[]> {
  providers: ReadonlyMap<string, YamlValue>;
}

function checkPath(
  path: string,
  entry: YamlValue,
  { protocols, chains, providers, usual }: PathNames,
  report: Report,
): void {
  const here = ["paths", path];
  const wrong = (message: string) => report({ path: here, key: true, message });
  const segments = path.split("/").slice(1);
  if (segments.some((segment, i) => segment.includes("*") && (segment !== "*" || i < segments.length - 1)))
    wrong("* can only be the last segment of a path");
  if (segments.some((segment) => segment === "." || segment === "..")) wrong("a path has no . or .. segments");
  if (path.length > 1 && segments.slice(segments[0] === "" ? 1 : 0).includes(""))
    wrong("a path has no empty segments and does not end in /");
  if (entry === "off" && !usual.includes(path)) wrong(unknownNameMessage("path", path, usual));
  if (!isMap(entry)) return;
  checkReference(entry["protocol"], [...here, "protocol"], "protocol", protocols, report);
  checkReference(entry["use"], [...here, "use"], "chain", chains, report);
  checkReference(entry["pass"], [...here, "pass"], "provider", [...providers.keys()], report);
  if (typeof entry["pass"] === "string" && atPath(providers.get(entry["pass"]), "url") === "demo:")
    report({
      path: [...here, "pass"],
      message: '"pass" needs a provider with an http url, which the built-in one does not have',
    });
  const [, second] = PATH_KINDS.filter((kind) => kind in entry);
  if (second !== undefined)
    report({
      path: [...here, second],
      key: true,
      message: 'a path has only one of "protocol", "serve" and "pass"; leave out the others',
    });
  if (!hasSimilarKey(entry, ...PATH_KINDS) && !usual.includes(path))
    wrong(
      `"protocol" is missing: one of ${protocols.join(", ")} (or "serve": a plugin, like on ${Object.keys(SERVED_PATHS)[0]}, or "pass": a provider)`,
    );
  for (const option of ["open", "mint"])
    if (option in entry && !("pass" in entry))
      report({ path: [...here, option], key: true, message: `"${option}" has no effect without "pass"; leave it out` });
  for (const kind of ["pass", "serve"])
    if ("strict" in entry && kind in entry)
      report({ path: [...here, "strict"], key: true, message: `"strict" has no effect with "${kind}"; leave it out` });
  if ("pass" in entry && !path.endsWith("/*") && !/^\/v\d/.test(path))
    wrong('a path with "pass" ends in /*, or begins with a version like /v1');
}
