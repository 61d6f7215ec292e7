// The size of an installed gateway.
import { lstatSync, readdirSync } from "node:fs";
import { join } from "node:path";

/** Maximum bytes of an installation, without Node itself. */
export const LARGEST = 20 * 2 ** 20;
/** Packages that contain a Node. */
export const NODE = /^(?:node|node-bin-[\w-]+|node-(?:linux|darwin|win)-[\w-]+)$/;

/**
 * Returns the bytes of a folder's files, each counted once, without those of a Node; pnpm's links are not followed, as their
 * targets are counted in place.
 */
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

/** Formats bytes for people. */
export const mebibytes = (bytes: number): string => `${(bytes / 2 ** 20).toFixed(1)} MiB`;
