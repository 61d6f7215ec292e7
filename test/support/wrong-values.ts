import type { Cast } from "./dice.ts";

/** Values of wrong types. */
const VALUES: readonly unknown[] = [
  ...[null, true, 0, -1, 1.5, 1e21, "", "x", "none", "gw1stateforged", "data:,x", "data:image/png;base64,", [], {}],
  ...[[null], [[]], [{}], ["x"], { type: "x" }, { type: null }, { role: "x" }, { text: 1 }, { "": 1 }],
  JSON.parse('{"__proto__":1,"constructor":{"name":1}}'),
];

/** Returns a copy of JSON with one random value replaced by a wrong one, removed, or doubled. */
export function wronged(json: unknown, cast: Cast): unknown {
  const wrong = () => VALUES[cast(VALUES.length)];
  if (typeof json !== "object" || json === null || cast(6) === 0) return wrong();
  const entries = Object.entries(json);
  if (entries.length === 0) return wrong();
  const at = cast(entries.length);
  const [name, value] = entries[at] as [string, unknown];
  const way = cast(12);
  if (Array.isArray(json)) {
    if (way === 0) return json.toSpliced(at, 1);
    if (way === 1) return json.toSpliced(at, 0, json[at]);
    return json.with(at, wronged(value, cast));
  }
  if (way === 0) return Object.fromEntries(entries.toSpliced(at, 1));
  return { ...json, [name]: wronged(value, cast) };
}
