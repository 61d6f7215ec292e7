import { type JsonPath, pathEdits } from "../../src/wire/paths.ts";

/** Returns the positions of values in a JSON text, in the order of their ends. Paths that do not exist are left out. */
export function locatePaths(text: Buffer, paths: Iterable<JsonPath>): { path: JsonPath; start: number; end: number }[] {
  return [...paths]
    .flatMap((path) => pathEdits(text, { replace: [[path, "0"]] }).map(({ start, end }) => ({ path, start, end })))
    .filter(({ start, end }) => start < end) // A member that does not exist would be added, in place of nothing.
    .sort((a, b) => a.end - b.end);
}

/** Returns the value at a path; undefined where there is none. */
export const valueAt = (json: unknown, path: JsonPath): unknown =>
  path.reduce<unknown>((value, step) => (value as Record<string | number, unknown> | undefined)?.[step], json);
