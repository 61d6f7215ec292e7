import { at, entries, isMap, type Tree } from "./tree.ts";

/** Some entries of the file in its own words, as the base for lines to paste. They contain no secret. */
export interface Written {
  readonly keys: ReadonlyMap<string, object>;
  readonly groups: ReadonlyMap<string, object>;
  readonly providers: ReadonlyMap<string, object>;
  readonly models: ReadonlyMap<string, object>;
}

const LIMITS = ["rpm", "tpm", "concurrency", "budget"];
/** All fields but the key itself, and its hash. */
const KEY = ["group", "owner", "tags", "models", "paths", "addresses", "expires", ...LIMITS];

/** @param values the values of the file, not interpreted */
export function writtenIn(values: Tree): Written {
  const each = (section: Tree, names: readonly string[]) =>
    new Map(entries(section).map(([name, entry]) => [name, among(names, entry)]));
  return {
    keys: each(at(values, "keys"), KEY),
    groups: each(at(values, "limits", "groups"), LIMITS),
    providers: each(at(values, "providers"), ["concurrency", "health"]),
    models: each(at(values, "models"), ["balance", "targets", "fallback"]),
  };
}

/** Returns the members of an entry with one of these names. */
function among(names: readonly string[], entry: Tree): object {
  return isMap(entry) ? Object.fromEntries(Object.entries(entry).filter(([name]) => names.includes(name))) : {};
}
