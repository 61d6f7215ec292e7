import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** Returns a path in the folder of other projects' data beside this repository; undefined if it is absent. */
export function shared(path: string): string | undefined {
  const full = fileURLToPath(new URL(`../../../shared/${path}`, import.meta.url));
  return existsSync(full) ? full : undefined;
}
