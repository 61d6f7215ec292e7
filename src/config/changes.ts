import type { Credential } from "../core/marketplace.ts";
import { SettingText, toFileSettings } from "./file-settings.ts";
import { starKeys } from "./secrets.ts";
import type { Config } from "./types.ts";

/** A difference to another gateway.yaml, without secrets. */
export interface Change {
  /** The path in gateway.yaml, like `models.fast.context`. */
  readonly path: string;
  /** Absent: it did not exist. */
  readonly before?: string;
  /** Absent: it is removed. */
  readonly after?: string;
}

/** Settings that take effect only at the next start. */
const START_SETTINGS = ["listen", "admin", "workers", "instances", "store", "timezone", "warm_up"] as const;
/** Their values, in plain JSON, as they are sent to workers. */
export type StartSettings = Pick<Config, (typeof START_SETTINGS)[number]>;
/** Fields about the file itself, or derived from others. */
const NOT_COMPARED = new Set(["file", "folder", "text", "masked", "written", "notices", "warnings", "budgets"]);
const SECRET = new Set(["hash", "key", "password", "token", "viewer", "client_secret", "webhook"]);

/** The compared value, and the shown one. */
interface Leaf {
  readonly value: string;
  readonly shown: string;
}

/**
 * Returns the differences between two configurations including defaults, in the order of the first one's sections.
 * @param code digests of the plugins' code, by name
 */
export function compareConfigs(before: Config, after: Config, code: CodeVersions = NO_CODE): Change[] {
  const [one, other] = [collectLeaves(before, code.before), collectLeaves(after, code.after)];
  const paths = new Set([...one.keys(), ...other.keys()]);
  return [...paths].flatMap((path) => {
    const [was, is] = [one.get(path), other.get(path)];
    if (was?.value === is?.value) return [];
    // Equal shown values, like a secret's name, would look unchanged.
    const after = was && is?.shown === was.shown ? `${is.shown} (its value has changed)` : is?.shown;
    return [{ path, ...(was && { before: was.shown }), ...(after !== undefined && { after }) }];
  });
}

interface CodeVersions {
  readonly before: ReadonlyMap<string, string>;
  readonly after: ReadonlyMap<string, string>;
}

const NO_CODE: CodeVersions = { before: new Map(), after: new Map() };

/** Returns the changed sections that need a restart. */
export function restartSections(changes: readonly Change[]): string[] {
  return START_SETTINGS.filter((name) => {
    // Tokens and sign-in are in the same section.
    const start = name === "admin" ? "admin.listen" : name;
    return changes.some(({ path }) => path === start || path.startsWith(`${start}.`));
  });
}

/** Returns the settings that stay in force until the next start, all of them from this configuration. */
export const startSettings = ({
  listen,
  admin,
  workers,
  instances,
  store,
  timezone,
  warm_up,
}: StartSettings): StartSettings => ({
  ...{ listen, workers, store, timezone, warm_up },
  ...(admin && { admin }),
  ...(instances !== undefined && { instances }),
});

/** Returns what is in force after a reload: the new configuration, with the settings of the start. */
export function withStartSettings(config: Config, started: StartSettings): Config {
  const { admin: _admin, instances: _instances, ...others } = config;
  return { ...others, ...startSettings(started) };
}

/** Returns a configuration without its secrets: texts by path. */
export function redactedSettings(config: Config): Record<string, string> {
  return Object.fromEntries([...collectLeaves(config, new Map())].map(([path, { shown }]) => [path, shown]));
}

function collectLeaves(config: Config, code: ReadonlyMap<string, string>): Map<string, Leaf> {
  const leaves = new Map<string, Leaf>();
  for (const [name, value] of Object.entries(toFileSettings(config)))
    if (!NOT_COMPARED.has(name)) addLeaf(leaves, name, value, name);
  for (const [name, version] of code) leaves.set(`plugins.${name} (code)`, { value: version, shown: version });
  return leaves;
}

function addLeaf(leaves: Map<string, Leaf>, path: string, value: unknown, name: string): void {
  if (value === undefined || name === "place") return;
  if (value instanceof SettingText) leaves.set(path, { value: value.value, shown: value.text });
  else if (name === "credentials") {
    const all = value as readonly Credential[];
    const shown = all.map(({ label }) => label).join(", ");
    if (all.length > 0) leaves.set(path.replace(/s$/, ""), { value: all.map(({ account }) => account).join(), shown });
  } else if (SECRET.has(name) && (typeof value === "string" || value instanceof URL))
    leaves.set(path, { value: String(value), shown: "a secret" });
  else if (value instanceof URL || typeof value !== "object" || value === null) {
    const hidden = isPluginOption(path) && (typeof value === "string" || value instanceof URL);
    const shown = path.startsWith("store.") ? String(value).replace(/:\/\/[^/?#]*@/, "://") : String(value);
    leaves.set(path, { value: String(value), shown: hidden ? "a text" : starKeys(shown) });
  } else if (value instanceof Map) for (const [key, each] of value) addLeaf(leaves, `${path}.${key}`, each, "");
  else if (Array.isArray(value)) addList(leaves, path, value, name);
  else for (const [key, each] of Object.entries(value)) addLeaf(leaves, `${path}.${key}`, each, key);
}

/** A plugin's option may contain a secret. */
const isPluginOption = (path: string): boolean => path.startsWith("plugins.");

/** Lists whose order matters are one value; entries with a name are compared by name. */
function addList(leaves: Map<string, Leaf>, path: string, list: readonly unknown[], name: string): void {
  if (list.every((each) => typeof each !== "object")) {
    const shown =
      isPluginOption(path) && list.some((each) => typeof each === "string") ? "texts" : starKeys(list.join(", "));
    leaves.set(path, { value: JSON.stringify(list), shown: shown || "nothing" });
    return;
  }
  for (const [i, each] of list.entries()) {
    const own = each as { name?: string; id?: string; path?: string };
    const called = (["id", "path", "name"] as const).find((member) => own[member] !== undefined);
    const step = called === undefined ? i : own[called];
    addLeaf(leaves, `${path}.${step}`, called === undefined ? each : { ...own, [called]: undefined }, name);
  }
}
