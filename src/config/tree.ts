import type { ConfigPath } from "./problems.ts";

/** A parsed value that may have any shape, right or wrong. */
export type Tree = unknown;

export function isMap(tree: Tree): tree is Record<string, Tree> {
  return typeof tree === "object" && tree !== null && !Array.isArray(tree);
}

/** Names and values of a map; nothing for anything else. */
export function entries(tree: Tree): [string, Tree][] {
  return isMap(tree) ? Object.entries(tree) : [];
}

/** Numbers and values of a list; nothing for anything else. */
export function items(tree: Tree): [number, Tree][] {
  return Array.isArray(tree) ? [...tree.entries()] : [];
}

/** What stands at a path, or undefined. */
export function at(tree: Tree, ...path: ConfigPath): Tree {
  let here = tree;
  for (const step of path) {
    if (typeof here !== "object" || here === null || !Object.hasOwn(here, step)) return undefined;
    here = (here as Record<string | number, Tree>)[step];
  }
  return here;
}
