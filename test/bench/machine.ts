import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { openSync, readFileSync } from "node:fs";
import { request } from "node:http";
import { cpus } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { program, tools } from "./build.ts";

/** The core of a program: the measured one has its own. */
export type Side = "proxy" | "others";
const CORE: Record<Side, string> = { proxy: "0", others: "1" };

/** Whether programs can be pinned to cores here. */
export const pinned = cpus().length > 1 && program("taskset") !== undefined;

const children = new Set<ChildProcess>();

function onSide(side: Side, command: string, args: string[]): [string, string[]] {
  return pinned ? ["taskset", ["-c", CORE[side], command, ...args]] : [command, args];
}

/** The command to start a program. */
export interface Launch {
  command: string;
  args: string[];
  cwd?: string;
  env?: Record<string, string>;
}

/** Starts a program that runs until `stop`; its output goes to the log file. */
export function start(side: Side, launch: Launch, logFile: string): ChildProcess {
  const { NODE_OPTIONS: _, ...inherited } = process.env;
  const log = openSync(logFile, "a");
  const [command, args] = onSide(side, launch.command, launch.args);
  const env = { ...inherited, ...launch.env };
  const child = spawn(command, args, { env, stdio: ["ignore", log, log], ...(launch.cwd ? { cwd: launch.cwd } : {}) });
  children.add(child);
  child.once("exit", () => children.delete(child));
  return child;
}

/** Runs a program to its end on the other core and returns its output. */
export function output(command: string, args: string[]): Promise<string> {
  const child = spawn(...onSide("others", command, args), { stdio: ["ignore", "pipe", "inherit"] });
  children.add(child);
  let text = "";
  child.stdout?.on("data", (piece) => {
    text += piece;
  });
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code) => {
      children.delete(child);
      if (code === 0) resolve(text);
      else reject(new Error(`${command} ended with ${code}`));
    });
  });
}

/** Returns the CPU microseconds that a fixed piece of work takes on the proxies' core now. */
export function calibrate(): number {
  const [command, args] = onSide("proxy", tools.calib, []);
  return Number(execFileSync(command, args, { encoding: "utf8" }).split(" ")[0]);
}

/** Returns a process and its descendants. */
export function tree(pid: number): number[] {
  try {
    const below = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim();
    return [
      pid,
      ...below
        .split(" ")
        .filter(Boolean)
        .flatMap((child) => tree(Number(child))),
    ];
  } catch {
    return [pid];
  }
}

/** Resident memory of processes in KB. */
export function residentKb(pids: number[]): number {
  return pids.reduce((sum, pid) => {
    try {
      return sum + Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0);
    } catch {
      return sum;
    }
  }, 0);
}

function kill(pids: number[], signal: NodeJS.Signals): void {
  for (const pid of pids) {
    try {
      process.kill(pid, signal);
    } catch {
      // It has already ended.
    }
  }
}

/** Ends a program and its children: SIGTERM, then SIGKILL after 1.5 s. */
export async function stop(child: ChildProcess): Promise<void> {
  if (child.pid === undefined || child.exitCode !== null) return;
  const ended = new Promise((resolve) => child.once("exit", resolve));
  const pids = tree(child.pid);
  kill(pids, "SIGTERM");
  await Promise.race([ended, sleep(1500)]);
  if (child.exitCode === null && child.signalCode === null) kill(pids, "SIGKILL");
}

/** Kills everything that is still running. */
export function stopAll(): void {
  for (const child of children) if (child.pid !== undefined) kill(tree(child.pid), "SIGKILL");
}

function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const asked = request({ host: "127.0.0.1", port, path: "/", agent: false, timeout: 1000 }, (response) => {
      response.resume();
      resolve(true);
    });
    asked.once("timeout", () => asked.destroy());
    asked.once("error", () => resolve(false));
    asked.end();
  });
}

/** Waits until GET / gets any response; throws an error with the log if the program ends or 20 s pass. */
export async function ready(name: string, child: ChildProcess, port: number, logFile: string): Promise<void> {
  let failed = false;
  child.once("error", () => {
    failed = true;
  });
  for (let i = 0; i < 200 && !failed && child.exitCode === null && child.signalCode === null; i++) {
    if (await answers(port)) return;
    await sleep(100);
  }
  const tail = readFileSync(logFile, "utf8").trimEnd().split("\n").slice(-25).join("\n");
  throw new Error(`${name} does not answer on port ${port}. It said:\n${tail}`);
}
