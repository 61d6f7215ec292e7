import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

/** The soft limit that a process gets back. */
const USUAL = 1024;

/** The state of a listening socket in /proc/net/tcp. */
const LISTENS = "0A";

/** Leaves a process so many free file descriptors (Linux), or as many as usual again. */
export function leaveDescriptors(pid: number, free: number | "enough"): void {
  const wanted = () => (free === "enough" ? USUAL : limitFor(pid, free));
  let set: number | undefined;
  // Once more where one that was open for a moment has been counted.
  for (let limit = wanted(); limit !== set; limit = wanted()) {
    execFileSync("prlimit", ["--pid", String(pid), `--nofile=${limit}:`]);
    set = limit;
  }
}

/** The limit below which so many numbers of descriptors are unused: a new one gets the lowest. */
function limitFor(pid: number, free: number): number {
  const used = new Set(readdirSync(`/proc/${pid}/fd`).map(Number));
  let limit = 0;
  for (let unused = 0; unused <= free; limit++) if (!used.has(limit)) unused++;
  return limit - 1;
}

/** Looks at the descriptors of a process, and milliseconds between them. */
const LOOKS = 20;
const LOOK_INTERVAL = 50;

/** Waits until the number of a process's descriptors has not changed for a second, and returns it (Linux). */
export async function settledDescriptors(pid: number): Promise<number> {
  const count = () => readdirSync(`/proc/${pid}/fd`).length;
  let settled = count();
  for (let looks = 0; looks < LOOKS; looks++) {
    await sleep(LOOK_INTERVAL);
    const now = count();
    if (now !== settled) [settled, looks] = [now, 0];
  }
  return settled;
}

/** Returns how many descriptors of files whose path ends so a process has (Linux). */
export function openFiles(pid: number, end: string): number {
  const folder = `/proc/${pid}/fd`;
  const paths = readdirSync(folder).map((number) => {
    try {
      return readlinkSync(`${folder}/${number}`);
    } catch {
      return "";
    }
  });
  return paths.filter((path) => path.endsWith(end)).length;
}

/** Returns the number of accepted IPv4 connections to a port of which a process still has the descriptor (Linux). */
export function openConnections(port: number): number {
  const local = `:${port.toString(16).toUpperCase().padStart(4, "0")}`;
  const sockets = readFileSync("/proc/net/tcp", "utf8").split("\n").slice(1, -1);
  return sockets
    .map((line) => line.trim().split(/\s+/))
    .filter(
      ([, address = "", , state, , , , , , inode]) => address.endsWith(local) && state !== LISTENS && inode !== "0",
    ).length;
}

/** Whether that can be done on this machine. */
export function canLimitDescriptors(): boolean {
  try {
    readdirSync("/proc/self/fd");
    execFileSync("prlimit", ["--version"]);
    return true;
  } catch {
    return false;
  }
}
