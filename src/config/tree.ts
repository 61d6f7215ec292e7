import { asObject } from "../wire/values.ts";
import type { ConfigPath } from "./problems.ts";

/** A parsed value that may have any shape, valid or not. */
export type YamlValue = unknown;

/** Reports whether a value is a map: neither a list nor a scalar. */
export function isMap(tree: YamlValue): tree is Record<string, YamlValue> {
  return asObject(tree) !== undefined;
}

/** Returns names and values of a map; none for anything else. */
export function entries(tree: YamlValue): [string, YamlValue][] {
  return isMap(tree) ? Object.entries(tree) : [];
}

/** Returns indexes and values of a list; none for anything else. */
export function items(tree: YamlValue): [number, YamlValue][] {
  return Array.isArray(tree) ? [...tree.entries()] : [];
}

/** Returns the value at a path, or undefined. */
export function atPath(tree: YamlValue, ...path: ConfigPath): YamlValue {
  let here = tree;
  for (const step of path) {
    if (typeof here !== "object" || here === null || !Object.hasOwn(here, step)) return undefined;
    here = (here as Record<string | number, YamlValue>)[step];
  }
  return here;
}
