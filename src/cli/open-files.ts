import { readFileSync } from "node:fs";

/** Files and connections that a gateway should be allowed at once: each stream takes two, a client's and a provider's. */
const ENOUGH = 4096;

/** The most files and connections that this process may have open, where the system says it: on Linux. */
export function mostOpenFiles(limits = "/proc/self/limits"): number | undefined {
  try {
    const most = /^Max open files\s+(\d+)/m.exec(readFileSync(limits, "utf8"))?.[1];
    return most === undefined ? undefined : Number(most);
  } catch {
    return undefined;
  }
}

/** What to say of a process that may have few open: past that connections are neither taken nor made, without a word. */
export function openFileDoubt(most: number | undefined): string | undefined {
  if (most === undefined || most >= ENOUGH) return undefined;
  return `only ${most} files and connections may be open at once, and each stream takes two: raise it with ulimit -n ${ENOUGH} or more, in systemd with LimitNOFILE=`;
}
