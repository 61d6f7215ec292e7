import { atPath, entries, isMap, type YamlValue } from "./tree.ts";

/** Some entries of the file in its own words, as the base for lines to paste. They contain no secret. */
export interface FileEntries {
  readonly keys: ReadonlyMap<string, object>;
  readonly groups: ReadonlyMap<string, object>;
  readonly providers: ReadonlyMap<string, object>;
  readonly models: ReadonlyMap<string, object>;
}

const LIMIT_FIELDS = ["rpm", "tpm", "concurrency", "budget"];
/** All fields but the key itself, and its hash. */
const KEY_FIELDS = ["group", "owner", "tags", "models", "paths", "addresses", "expires", ...LIMIT_FIELDS];

/** @param values the values of the file, not interpreted */
export function fileEntries(values: YamlValue): FileEntries {
  const each = (section: YamlValue, names: readonly string[]) =>
    new Map(entries(section).map(([name, entry]) => [name, pickFields(names, entry)]));
  return {
    keys: each(atPath(values, "keys"), KEY_FIELDS),
    groups: each(atPath(values, "limits", "groups"), LIMIT_FIELDS),
    providers: each(atPath(values, "providers"), ["concurrency", "health"]),
    models: each(atPath(values, "models"), ["balance", "targets", "fallback"]),
  };
}

/** Returns the members of an entry with one of these names. */
function pickFields(names: readonly string[], entry: YamlValue): object {
  return isMap(entry) ? Object.fromEntries(Object.entries(entry).filter(([name]) => names.includes(name))) : {};
}
