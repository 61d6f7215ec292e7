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
  statfsSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { setTimeout as after } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import postgres from "postgres";
import type { Test } from "tap";
import type { PostgresDatabase } from "../../src/store/postgres/database.ts";
import { openPostgres } from "../../src/store/postgres/migrations.ts";
import { type PostgresSettings, parsePostgresUrl } from "../../src/store/postgres/place.ts";
import { descendantsOf, signalled } from "./descendants.ts";
import { reportMissing } from "./missing.ts";

/** The folder of all versions in Debian's packages. */
const VERSIONS = "/usr/lib/postgresql";
const USER = "gateway";
/** The cache of an empty server's data for each version. */
const MADE = fileURLToPath(new URL("../../node_modules/.cache/postgres", import.meta.url));

/** Files in memory: a server with a dozen databases costs a third of the CPU that it costs on a disk. */
const MEMORY = "/dev/shm";
/** Bytes that must be free there; a server's data takes 40 MB, and each database 8 MB. */
const ROOM = 1024 ** 3;

/** A real PostgreSQL in its own folder, with a socket there. */
export interface PostgresServer {
  /** Its folder, which contains the socket. */
  readonly folder: string;
  /** Creates a database and returns its address for gateway.yaml. */
  database(): Promise<string>;
  /** Queries a database, as its owner. */
  ask(url: string, text: string): Promise<Record<string, unknown>[]>;
  /** Kills it with all its processes, like a power failure. */
  kill(): Promise<void>;
  stop(): Promise<void>;
  /** Suspends all its processes, with connections open; returns a function that resumes them. */
  freeze(): () => void;
  /** Starts it again, with further settings. */
  start(...settings: readonly string[]): Promise<void>;
}

/** Returns the folder of the newest installed version's programs. */
export function postgresBinaries(): string | undefined {
  const versions = existsSync(VERSIONS) ? readdirSync(VERSIONS).sort((a, b) => Number(b) - Number(a)) : [];
  return versions.map((version) => join(VERSIONS, version, "bin")).find((folder) => existsSync(join(folder, "initdb")));
}

/** Returns the user it runs as: it refuses to run as root. */
function owner(): { uid: number; gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const [, , uid, gid] = /^(postgres|nobody):[^:]*:(\d+):(\d+)/m.exec(readFileSync("/etc/passwd", "latin1")) ?? [];
  return { uid: Number(uid), gid: Number(gid) };
}

/** Returns the folder for data that need not outlive the machine. Containers often have little memory for files. */
function place(): string {
  try {
    const { bavail, bsize } = statfsSync(MEMORY);
    return bavail * bsize > ROOM ? MEMORY : tmpdir();
  } catch {
    return tmpdir();
  }
}

/** Copies an empty server's data from the cache, as initdb takes a second of CPU. */
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
    // Another process was faster, or the cache is not writable.
    rmSync(own, { recursive: true, force: true });
  }
}

/**
 * Starts a server, stopped with the test; best shared by a whole file of tests. Undefined if PostgreSQL is not installed, after
 * skipping the test; with `GATEWAY_TEST_POSTGRES=required` that fails instead.
 */
export async function startPostgres(t: Test): Promise<PostgresServer | undefined> {
  const bin = postgresBinaries();
  if (bin === undefined) {
    reportMissing(t, "GATEWAY_TEST_POSTGRES", "PostgreSQL", "postgresql");
    return undefined;
  }
  const as = owner();
  const folder = mkdtempSync(join(place(), "gateway-pg-"));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  if (as) chownSync(folder, as.uid, as.gid);
  const data = join(folder, "data");
  const options = { cwd: folder, ...as, env: { PATH: process.env["PATH"], LC_ALL: "C.UTF-8" } };
  makeData(bin, data, options);
  // Written to the log, as versions from 15 do without it, a copy costs twice the CPU.
  const copied = Number(basename(dirname(bin))) >= 15 ? " strategy file_copy" : "";
  const base = [
    `unix_socket_directories = '${folder}'`,
    "listen_addresses = ''",
    "max_connections = 200",
    "fsync = off",
  ];
  appendFileSync(join(data, "postgresql.conf"), `\n${base.join("\n")}\n`);
  let child: ChildProcess | undefined;
  let output = "";
  const start = async (...settings: readonly string[]) => {
    const args = ["-D", data, ...settings.flatMap((setting) => ["-c", setting])];
    const server = spawn(join(bin, "postgres"), args, { ...options, stdio: ["ignore", "ignore", "pipe"] });
    child = server;
    server.stderr.setEncoding("utf8").on("data", (text: string) => (output += text));
    for (let i = 0; i < 1500; i++) {
      if (server.exitCode !== null) throw new Error(`PostgreSQL does not start: ${output}`);
      const ready = await asked("postgres", "select 1").catch(() => undefined);
      if (ready) return;
      await after(20);
    }
    throw new Error(`PostgreSQL does not answer: ${output}`);
  };
  const end = async (signal: NodeJS.Signals) => {
    const server = child;
    child = undefined;
    if (!server || server.exitCode !== null || server.signalCode !== null) return;
    // Its backends would outlive it for a while, and wait for each other.
    if (signal === "SIGKILL") server.kill("SIGSTOP");
    const served = signal === "SIGKILL" ? descendantsOf(server.pid as number) : [];
    server.kill(signal);
    for (const pid of served) signalled(pid, "SIGKILL");
    await once(server, "exit");
    // They must be gone before it is started again.
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
      await asked("postgres", `create database ${name}${copied}`);
      return `postgres:///${name}?host=${folder}&user=${USER}`;
    },
    ask: (url, text) => asked(new URL(url).pathname.slice(1), text),
    kill: () => end("SIGKILL"),
    stop: () => end("SIGINT"),
    freeze() {
      const { pid } = child as ChildProcess;
      process.kill(pid as number, "SIGSTOP");
      const all = [pid as number, ...descendantsOf(pid as number)];
      for (const one of all) signalled(one, "SIGSTOP");
      return () => {
        for (const one of all) signalled(one, "SIGCONT");
      };
    },
    start,
  };
}

/** Parses a valid address. */
export function placeOf(url: string): PostgresSettings {
  const place = parsePostgresUrl(url, "/");
  if (typeof place === "string") throw new Error(place);
  return place;
}

/** Opens a new database, and closes it at the end of the test. */
export async function openDatabase(t: Test, url: string, connections: number): Promise<PostgresDatabase> {
  const { database } = await openPostgres(placeOf(url), connections);
  t.teardown(() => database.close());
  return database;
}
