/** Requests with members that nobody has heard of yet, and a comparison that sees every digit. */

import { parseExact, RawJson, writeJson } from "../../../src/wire/exact.ts";
import { type JsonObject } from "../../../src/wire/values.ts";
import type { Cast } from "../../support/dice.ts";

const NAMES = ["unheard_of", "unheardOf", "__proto__", "constructor", "x-new", "hasOwnProperty"] as const;

/** Values of every type, and numbers that no double holds. */
const VALUES: readonly unknown[] = [
  null,
  true,
  0,
  -1.5,
  "",
  "word",
  [],
  {},
  new RawJson("12345678901234567890"),
  new RawJson("-9007199254740993"),
  new RawJson("1e400"),
  [new RawJson("12345678901234567890"), { deep: new RawJson("12345678901234567891") }],
];

/** The JSON text with more members in its objects, at every level; `open` says in which, by their path. */
export function withUnheardOf(text: string, cast: Cast, open: (path: string) => boolean = () => true): string {
  const grown = (value: unknown, path: string): unknown => {
    if (value instanceof RawJson || typeof value !== "object" || value === null) return value;
    if (Array.isArray(value)) return value.map((each, i) => grown(each, `${path}.${i}`));
    const members = Object.entries(value).map(([name, member]) => [name, grown(member, `${path}.${name}`)] as const);
    const name = NAMES[cast(NAMES.length)] as string;
    const more = cast(2) === 0 && open(path) && !Object.hasOwn(value, name);
    return Object.fromEntries(more ? [...members, [name, VALUES[cast(VALUES.length)]]] : members);
  };
  return writeJson(grown(parseExact(text), ""));
}

/** The same text for the same JSON: members by their names, numbers as they were written. */
export function exactly(text: string): string {
  const sorted = (value: unknown): unknown => {
    if (value instanceof RawJson || typeof value !== "object" || value === null) return value;
    if (Array.isArray(value)) return value.map(sorted);
    return Object.fromEntries(
      Object.entries(value as JsonObject)
        .sort(([a], [b]) => (a < b ? -1 : 1))
        .map(([name, member]) => [name, sorted(member)]),
    );
  };
  return writeJson(sorted(parseExact(text)));
}
