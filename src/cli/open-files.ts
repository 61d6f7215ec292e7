import { readFileSync } from "node:fs";

/** Recommended limit of open files and connections: each stream takes two, a client's and a provider's. */
const RECOMMENDED_LIMIT = 4096;

/** Returns the limit of open files and connections of this process, where the system reports it: on Linux. */
export function maxOpenFiles(limits = "/proc/self/limits"): number | undefined {
  try {
    const limit = /^Max open files\s+(\d+)/m.exec(readFileSync(limits, "utf8"))?.[1];
    return limit === undefined ? undefined : Number(limit);
  } catch {
    return undefined;
  }
}

/** Returns a warning for a low limit: beyond it connections fail silently. */
export function openFilesWarning(limit: number | undefined): string | undefined {
  if (limit === undefined || limit >= RECOMMENDED_LIMIT) return undefined;
  return `only ${limit} files and connections may be open at once, and each stream takes two: raise the limit with ulimit -n ${RECOMMENDED_LIMIT} or more, in systemd with LimitNOFILE=`;
}
