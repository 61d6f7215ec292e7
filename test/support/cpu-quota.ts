import { mkdirSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as after } from "node:timers/promises";
import type { Test } from "tap";

/** Microseconds: short, so that who has used up its share does not wait for long. */
const PERIOD = 10_000;

let made = 0;

/**
 * Gives processes a share of a core, as a container's limit does (control groups, version 1 or 2).
 * @returns what puts a process under it, with all its threads; undefined where this user may not, or not here
 */
export function cpuShare(t: Test, share: number): ((pid: number) => void) | undefined {
  const name = `gateway-test-${process.pid}-${++made}`;
  const quota = Math.round(share * PERIOD);
  for (const [root, settings] of [
    ["/sys/fs/cgroup/cpu", { "cpu.cfs_period_us": PERIOD, "cpu.cfs_quota_us": quota }],
    ["/sys/fs/cgroup", { "cpu.max": `${quota} ${PERIOD}` }],
  ] as const) {
    const group = join(root, name);
    try {
      mkdirSync(group);
    } catch {
      continue;
    }
    t.teardown(() => removed(group));
    try {
      for (const [file, value] of Object.entries(settings)) writeFileSync(join(group, file), String(value));
      return (pid) => writeFileSync(join(group, "cgroup.procs"), String(pid));
    } catch {
      // Nothing of the kind here.
    }
  }
  return undefined;
}

/** Once its processes have ended. */
async function removed(group: string): Promise<void> {
  for (let tries = 0; tries < 500; tries++) {
    try {
      return rmdirSync(group);
    } catch {
      await after(20);
    }
  }
}
