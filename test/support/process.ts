import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { Test } from "tap";
import { childrenOf } from "./descendants.ts";
import { KEY } from "./key.ts";
import { until } from "./until.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

const START = (
  JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { scripts: { start: string } }
).scripts.start.split(" ");

/** Flags with which `npm start` starts Node: what a gateway takes of memory depends on them, and on `START_ENV`. */
export const START_FLAGS: readonly string[] = START.filter((word) => /^--(?!import)/.test(word));

/** Environment variables that `npm start` sets. */
export const START_ENV: Readonly<Record<string, string>> = Object.fromEntries(
  START.map((word) => /^(\w+)=\$\{\w+:-(\w+)\}$/.exec(word)?.slice(1, 3) ?? []).filter(([name]) => name),
);

/** Runs the command line in a gateway's folder. Returns its output. */
export async function cli({ folder }: { folder: string }, ...args: string[]): Promise<string> {
  const program = ["--import", join(ROOT, "src/loader/register.js"), join(ROOT, "src/main.ts"), ...args];
  return (await promisify(execFile)(process.execPath, program, { cwd: folder })).stdout;
}

/** A gateway in its own processes. */
export interface GatewayProcess {
  child: ChildProcess;
  folder: string;
  /** Its output so far. */
  readonly text: string;
  /** Its log lines. */
  lines(): Record<string, unknown>[];
  /** Without a trailing slash. */
  url: string;
  port: number;
  /** The address of the admin side, without a trailing slash. */
  admin: string;
  /** Returns the response of /readyz; undefined if it is not listening. */
  ready(): Promise<{ status: number; body: Record<string, unknown> } | undefined>;
  /** Sends a signal and waits for the end: exit code, or the signal that killed it. */
  end(signal?: NodeJS.Signals): Promise<number | string | null>;
  /** Resolves when it ends. */
  ended: Promise<number | string | null>;
  readonly hasEnded: boolean;
  /** Returns the ids of its workers' processes. */
  workers(): number[];
  /** Returns the ledger's outcomes, and the number of duplicate ids. */
  ledger(): { outcomes: Record<string, number>; twice: number };
  /** Returns the CPU seconds of its processes; the kernel counts in hundredths. */
  cpu(): number;
  /** Returns the outcome of each exchange in the ledger, by id. */
  rows(): Record<string, string>;
  /** Returns the number of rows per key and outcome. */
  outcomes(): Record<string, Record<string, number>>;
}

export interface ProcessOptions {
  files?: Record<string, string>;
  /** A listening socket passed as file descriptor 3, like systemd does. */
  fd?: number;
  /** Further environment variables. */
  env?: Record<string, string>;
  /** The existing folder of a previous gateway. */
  folder?: string;
  /** Further arguments of the verb `run`. */
  args?: readonly string[];
  /** Options of node. */
  node?: readonly string[];
  /** Limits of a shell, like `-n 256`. */
  ulimit?: string;
  /** The only core that it may use; undefined: any. */
  core?: number | undefined;
}

/** @param yaml providers, models and whatever the test needs; listener, admin side, store, key and more are added */
export async function startProcess(
  t: Test,
  yaml: string,
  {
    files = {},
    env = {},
    fd,
    folder = mkdtempSync(join(tmpdir(), "gateway-")),
    node = [],
    args = [],
    ulimit,
    core,
  }: ProcessOptions = {},
): Promise<GatewayProcess> {
  const own = [
    /^listen:/m.test(yaml) ? "" : "listen: 127.0.0.1:0\n",
    /^admin:/m.test(yaml) ? "" : "admin: 127.0.0.1:0\n",
    /^store:/m.test(yaml) ? "" : "store: { ledger: 'sqlite:./gateway.db' }\n",
    // Tests share a busy machine with it.
    /^overload:/m.test(yaml) ? "" : "overload: { delay: off }\n",
    /^keys:/m.test(yaml) ? "" : `keys: { test: { key: ${KEY} } }\n`,
    /^warm_up:/m.test(yaml) ? "" : "warm_up: off\n",
    // No balancer in front has to notice that it stops.
    /^linger:/m.test(yaml) ? "" : "linger: off\n",
  ];
  writeFileSync(join(folder, "gateway.yaml"), own.join("") + yaml);
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  const pinned = core === undefined ? [] : ["taskset", "-c", String(core)];
  const program = [
    ...[...pinned, process.execPath, ...node, "--import", `${ROOT}src/loader/register.js`],
    ...[`${ROOT}src/main.ts`, "run", ...args],
  ];
  const shell = `${ulimit === undefined ? "" : `ulimit ${ulimit}; `}${fd === undefined ? "" : "LISTEN_PID=$$ "}exec "$0" "$@"`;
  const child = spawn("/bin/bash", ["-c", shell, ...program], {
    cwd: folder,
    env: { PATH: process.env["PATH"], ...env, ...(fd === undefined ? {} : { LISTEN_FDS: "1" }) },
    stdio: ["ignore", "pipe", "pipe", ...(fd === undefined ? [] : [fd])],
  });
  let text = "";
  for (const stream of [child.stdout, child.stderr])
    stream?.setEncoding("utf8").on("data", (more: string) => (text += more));
  const ended = once(child, "close").then(([code, signal]) => (code ?? signal) as number | string | null);
  t.teardown(async () => {
    if (child.exitCode === null && child.signalCode === null) child.kill("SIGKILL");
    await ended;
    await killAllIn(folder);
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  });
  await until(() => text.includes('"Hello"') || child.exitCode !== null, "a gateway's start");
  if (child.exitCode !== null) throw new Error(`no gateway: ${text}`);
  const url = /listens on (\S+)/.exec(text)?.[1] ?? "";
  const admin = /admin +(\S+)/.exec(text)?.[1] ?? "";
  return {
    child,
    folder,
    get text() {
      return text;
    },
    lines: () => text.split("\n").flatMap((line) => (line.startsWith("{") ? [JSON.parse(line)] : [])),
    url,
    port: Number(new URL(url).port),
    admin,
    ready: () =>
      fetch(`${admin}/readyz`).then(
        async (response) => ({ status: response.status, body: (await response.json()) as Record<string, unknown> }),
        () => undefined,
      ),
    ended,
    get hasEnded() {
      return child.exitCode !== null || child.signalCode !== null;
    },
    end(signal = "SIGTERM") {
      child.kill(signal);
      return ended;
    },
    workers: () => childrenOf(child.pid as number),
    ledger() {
      const rows = rowsOf(folder);
      return {
        outcomes: counted(rows.map(({ outcome }) => outcome)),
        twice: rows.length - new Set(rows.map(({ id }) => id)).size,
      };
    },
    cpu: () => cpuOf(child.pid as number) / 100,
    rows: () => Object.fromEntries(rowsOf(folder).map(({ id, outcome }) => [id, outcome])),
    outcomes() {
      const byKey = Object.groupBy(rowsOf(folder), ({ key }) => key);
      return Object.fromEntries(
        Object.entries(byKey).map(([key, rows = []]) => [key, counted(rows.map(({ outcome }) => outcome))]),
      );
    },
  };
}

/** Returns the CPU of a process and its descendants. */
function cpuOf(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8")
    .replace(/^.*\) /s, "")
    .split(" ");
  return childrenOf(pid).reduce((sum, child) => sum + cpuOf(child), Number(fields[11]) + Number(fields[12]));
}

/** Kills the workers that a killed primary has left: they would write their journals into the folder again. */
async function killAllIn(folder: string): Promise<void> {
  await until(() => {
    const left = processesIn(folder);
    for (const pid of left)
      try {
        process.kill(pid, "SIGKILL");
      } catch {
        // It has ended meanwhile.
      }
    return left.length === 0;
  }, `the processes in ${folder}`);
}

/** Returns the ids of the processes that run in a folder. */
const processesIn = (folder: string): number[] =>
  readdirSync("/proc").flatMap((name) => {
    try {
      return /^\d+$/.test(name) && readlinkSync(`/proc/${name}/cwd`) === folder ? [Number(name)] : [];
    } catch {
      return [];
    }
  });

function rowsOf(folder: string): { id: string; outcome: string; key: string }[] {
  const database = new DatabaseSync(join(folder, "gateway.db"), { readOnly: true, timeout: 5000 });
  const rows = database.prepare("select id, outcome, key from usage join usage_kind on number = kind").all();
  database.close();
  return rows.map(({ id, outcome, key }) => ({ id: String(id), outcome: String(outcome), key: String(key) }));
}

function counted(words: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const word of words) counts[word] = (counts[word] ?? 0) + 1;
  return counts;
}
