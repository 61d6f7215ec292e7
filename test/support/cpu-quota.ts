import { mkdirSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as after } from "node:timers/promises";
import type { Test } from "tap";

/** Microseconds: short, so that a process that has used its share does not wait long. */
const PERIOD = 10_000;

let made = 0;

/**
 * Limits processes to a share of a core, like a container's limit (control groups, version 1 or 2).
 * @returns a function that limits a process with all its threads; undefined if that is not permitted or supported
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
      // Not supported here.
    }
  }
  return undefined;
}

/** Removes the group once its processes have ended. */
async function removed(group: string): Promise<void> {
  for (let tries = 0; tries < 500; tries++) {
    try {
      return rmdirSync(group);
    } catch {
      await after(20);
    }
  }
}
