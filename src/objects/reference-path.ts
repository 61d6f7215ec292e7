import { shortPath } from "../core/shorten.ts";

/** The steps to a value, the last one first. A linked list, because most paths are never formatted. */
export type PathNode = { readonly above?: PathNode | undefined; readonly step: string | number } | undefined;

/** Formats a path for clients: `input.1.id`; of a long one the beginning. */
export function paramOf(path: PathNode): string {
  const steps: (string | number)[] = [];
  for (let at = path; at !== undefined; at = at.above) steps.push(at.step);
  return shortPath(steps.reverse());
}
