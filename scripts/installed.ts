// How large the gateway is once it is installed.
import { lstatSync, readdirSync } from "node:fs";
import { join } from "node:path";

/** Bytes of all that is installed, without Node itself. */
export const LARGEST = 20 * 2 ** 20;
/** Packages that bring a Node along. */
export const NODE = /^(?:node|node-bin-[\w-]+|node-(?:linux|darwin|win)-[\w-]+)$/;

/** Bytes of a folder's files, each counted once, without those of a Node; pnpm has links to packages that are counted where they stand. */
export function bytesIn(place: string, seen = new Set<number>()): number {
  let sum = 0;
  for (const name of readdirSync(place)) {
    const file = join(place, name);
    const its = lstatSync(file);
    if (its.isSymbolicLink() || seen.has(its.ino)) continue;
    seen.add(its.ino);
    sum += its.isDirectory() ? (NODE.test(name) ? 0 : bytesIn(file, seen)) : its.size;
  }
  return sum;
}

/** Bytes as people read them. */
export const mebibytes = (bytes: number): string => `${(bytes / 2 ** 20).toFixed(1)} MiB`;
