import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import {
  appendFileSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { setTimeout as after } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import postgres from "postgres";
import type { Test } from "tap";
import { type PostgresPlace, postgresPlace } from "../../src/store/postgres/place.ts";

/** Where Debian's packages put each version. */
const VERSIONS = "/usr/lib/postgresql";
const USER = "gateway";
/** Where an empty server of each version is kept, to be copied. */
const MADE = fileURLToPath(new URL("../../node_modules/.cache/postgres", import.meta.url));

/** A real PostgreSQL in a folder of its own, reached by a socket there. */
export interface PostgresServer {
  /** Its folder, which holds the socket. */
  readonly folder: string;
  /** A new database, as an address for gateway.yaml. */
  database(): Promise<string>;
  /** Asks a database something, as its owner. */
  ask(url: string, text: string): Promise<Record<string, unknown>[]>;
  /** Kills it with all that it runs, as a machine that dies. */
  kill(): Promise<void>;
  stop(): Promise<void>;
  /** Stops it with all that it runs as they are, connections open; returns what has them go on. */
  freeze(): () => void;
  /** Starts it again, with further settings. */
  start(...settings: readonly string[]): Promise<void>;
}

/** The newest of the installed versions. */
function binaries(): string | undefined {
  const versions = existsSync(VERSIONS) ? readdirSync(VERSIONS).sort((a, b) => Number(b) - Number(a)) : [];
  return versions.map((version) => join(VERSIONS, version, "bin")).find((folder) => existsSync(join(folder, "initdb")));
}

/** Who it runs as: it refuses to be root. */
function owner(): { uid: number; gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const [, , uid, gid] = /^(postgres|nobody):[^:]*:(\d+):(\d+)/m.exec(readFileSync("/etc/passwd", "latin1")) ?? [];
  return { uid: Number(uid), gid: Number(gid) };
}

/** An empty server's files, which initdb takes a second of CPU for: what it has made once is copied. */
function makeData(bin: string, data: string, options: object): void {
  const made = join(MADE, basename(dirname(bin)));
  const copied = (from: string, to: string) => execFileSync("cp", ["-a", from, to], { stdio: "pipe" });
  if (existsSync(made)) return void copied(made, data);
  const args = ["-D", data, "-U", USER, "-A", "trust", "-E", "UTF8", "--no-sync"];
  execFileSync(join(bin, "initdb"), args, { ...options, stdio: "pipe" });
  const own = `${made}.${process.pid}`;
  try {
    mkdirSync(MADE, { recursive: true });
    copied(data, own);
    renameSync(own, made);
  } catch {
    // Another process was faster, or nothing can be kept there.
    rmSync(own, { recursive: true, force: true });
  }
}

/**
 * Starts one, stopped with the test: best one for a whole file of tests. Undefined where PostgreSQL is not installed, after
 * skipping the test; with `GATEWAY_TEST_POSTGRES=required` that fails instead.
 */
export async function startPostgres(t: Test): Promise<PostgresServer | undefined> {
  const bin = binaries();
  if (bin === undefined) {
    if (process.env["GATEWAY_TEST_POSTGRES"] === "required")
      t.fail("PostgreSQL is missing: apt-get install postgresql");
    else t.pass("skipped: PostgreSQL is not installed");
    return undefined;
  }
  const as = owner();
  const folder = mkdtempSync(join(tmpdir(), "gateway-pg-"));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  if (as) chownSync(folder, as.uid, as.gid);
  const data = join(folder, "data");
  const options = { cwd: folder, ...as, env: { PATH: process.env["PATH"], LC_ALL: "C.UTF-8" } };
  makeData(bin, data, options);
  const base = [
    `unix_socket_directories = '${folder}'`,
    "listen_addresses = ''",
    "max_connections = 200",
    "fsync = off",
  ];
  appendFileSync(join(data, "postgresql.conf"), `\n${base.join("\n")}\n`);
  let child: ChildProcess | undefined;
  let said = "";
  const start = async (...settings: readonly string[]) => {
    const args = ["-D", data, ...settings.flatMap((setting) => ["-c", setting])];
    const server = spawn(join(bin, "postgres"), args, { ...options, stdio: ["ignore", "ignore", "pipe"] });
    child = server;
    server.stderr.setEncoding("utf8").on("data", (text: string) => (said += text));
    for (let i = 0; i < 1500; i++) {
      if (server.exitCode !== null) throw new Error(`PostgreSQL does not start: ${said}`);
      const ready = await asked("postgres", "select 1").catch(() => undefined);
      if (ready) return;
      await after(20);
    }
    throw new Error(`PostgreSQL does not answer: ${said}`);
  };
  const end = async (signal: NodeJS.Signals) => {
    const server = child;
    child = undefined;
    if (!server || server.exitCode !== null || server.signalCode !== null) return;
    // Those that serve connections would outlive their server for a while, and wait for each other.
    if (signal === "SIGKILL") server.kill("SIGSTOP");
    const served = signal === "SIGKILL" ? below(server.pid as number) : [];
    server.kill(signal);
    for (const pid of served) signalled(pid, "SIGKILL");
    await once(server, "exit");
    // Who starts it again must not find any of them.
    while (served.some((pid) => existsSync(`/proc/${pid}`))) await after(5);
    rmSync(join(data, "postmaster.pid"), { force: true });
  };
  const asked = async (database: string, text: string) => {
    const sql = postgres({
      host: folder,
      user: USER,
      database,
      max: 1,
      onnotice: () => {},
      connection: { search_path: "model_gateway" },
    });
    try {
      return [...(await sql.unsafe(text))] as Record<string, unknown>[];
    } finally {
      await sql.end({ timeout: 1 });
    }
  };
  t.teardown(() => end("SIGINT"));
  await start();
  let count = 0;
  return {
    folder,
    async database() {
      const name = `test_${process.pid}_${++count}`;
      await asked("postgres", `create database ${name}`);
      return `postgres:///${name}?host=${folder}&user=${USER}`;
    },
    ask: (url, text) => asked(new URL(url).pathname.slice(1), text),
    kill: () => end("SIGKILL"),
    stop: () => end("SIGINT"),
    freeze() {
      const { pid } = child as ChildProcess;
      process.kill(pid as number, "SIGSTOP");
      const all = [pid as number, ...below(pid as number)];
      for (const one of all) signalled(one, "SIGSTOP");
      return () => {
        for (const one of all) signalled(one, "SIGCONT");
      };
    },
    start,
  };
}

/** The place of an address that is right. */
export function placeOf(url: string): PostgresPlace {
  const place = postgresPlace(url, "/");
  if (typeof place === "string") throw new Error(place);
  return place;
}

function below(pid: number): number[] {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" ").filter(Boolean).map(Number);
  return children.flatMap((child) => [...below(child), child]);
}

function signalled(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It has ended by itself.
  }
}
