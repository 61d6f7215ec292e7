import { type JsonPath, pathEdits } from "../../src/wire/paths.ts";

/** Returns the positions of values in a JSON text, in its order. Paths that do not exist are left out. */
export function locatePaths(text: Buffer, paths: Iterable<JsonPath>): { path: JsonPath; start: number; end: number }[] {
  const all = [...paths];
  return pathEdits(text, { replace: all.map((path, n) => [path, String(n)] as const) })
    .filter(({ start, end }) => start < end) // A member that does not exist would be added, in place of nothing.
    .map(({ start, end, bytes }) => ({ path: all[Number(bytes)] as JsonPath, start, end }));
}

/** Returns the value at a path; undefined where there is none. */
export const valueAt = (json: unknown, path: JsonPath): unknown =>
  path.reduce<unknown>((value, step) => (value as Record<string | number, unknown> | undefined)?.[step], json);
