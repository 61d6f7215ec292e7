import { at, entries, isMap, type Tree } from "./tree.ts";

/** What the file says of some things in its own words: lines to paste begin from that. No secret stands in it. */
export interface Written {
  readonly keys: ReadonlyMap<string, object>;
  readonly groups: ReadonlyMap<string, object>;
  readonly providers: ReadonlyMap<string, object>;
  readonly models: ReadonlyMap<string, object>;
}

const LIMITS = ["rpm", "tpm", "concurrency", "budget"];
/** All but the key itself, and its hash. */
const KEY = ["group", "owner", "tags", "models", "paths", "addresses", "expires", ...LIMITS];

/** @param values what the file says, whatever it means */
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

/** The members of an entry that have one of some names. */
function among(names: readonly string[], entry: Tree): object {
  return isMap(entry) ? Object.fromEntries(Object.entries(entry).filter(([name]) => names.includes(name))) : {};
}
