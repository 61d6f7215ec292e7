import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** A path in the folder of other projects' data that lies beside this repository, or undefined where it is absent. */
export function shared(path: string): string | undefined {
  const full = fileURLToPath(new URL(`../../../shared/${path}`, import.meta.url));
  return existsSync(full) ? full : undefined;
}
