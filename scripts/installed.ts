// The size of an installed gateway.
import { lstatSync, readdirSync } from "node:fs";
import { join } from "node:path";

/** Maximum bytes of an installation, without Node itself. */
export const MAX_INSTALLED = 20_000_000;
/** Packages that contain a Node. */
export const NODE_PACKAGE = /^(?:node|node-bin-[\w-]+|node-(?:linux|darwin|win)-[\w-]+)$/;

/**
 * Returns the bytes of a folder's files, each counted once, without those of a Node; pnpm's links are not followed, as their
 * targets are counted in place.
 */
export function bytesIn(place: string, seen = new Set<number>()): number {
  let sum = 0;
  for (const name of readdirSync(place)) {
    const file = join(place, name);
    const stats = lstatSync(file);
    if (stats.isSymbolicLink() || seen.has(stats.ino)) continue;
    seen.add(stats.ino);
    sum += stats.isDirectory() ? (NODE_PACKAGE.test(name) ? 0 : bytesIn(file, seen)) : stats.size;
  }
  return sum;
}

/** Formats bytes for people. */
export const megabytes = (bytes: number): string => `${(bytes / 1e6).toFixed(1)} MB`;
