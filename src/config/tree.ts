import type { ConfigPath } from "./problems.ts";

/** A parsed value that may have any shape, valid or not. */
export type Tree = unknown;

export function isMap(tree: Tree): tree is Record<string, Tree> {
  return typeof tree === "object" && tree !== null && !Array.isArray(tree);
}

/** Returns names and values of a map; none for anything else. */
export function entries(tree: Tree): [string, Tree][] {
  return isMap(tree) ? Object.entries(tree) : [];
}

/** Returns indexes and values of a list; none for anything else. */
export function items(tree: Tree): [number, Tree][] {
  return Array.isArray(tree) ? [...tree.entries()] : [];
}

/** Returns the value at a path, or undefined. */
export function at(tree: Tree, ...path: ConfigPath): Tree {
  let here = tree;
  for (const step of path) {
    if (typeof here !== "object" || here === null || !Object.hasOwn(here, step)) return undefined;
    here = (here as Record<string | number, Tree>)[step];
  }
  return here;
}
