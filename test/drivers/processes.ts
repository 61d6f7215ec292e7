import { type ChildProcess, execFile, spawn } from "node:child_process";
import { hash } from "node:crypto";
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const CACHE = join(ROOT, "node_modules/.cache/model-gateway/clients");
const run = promisify(execFile);

/** Milliseconds a process may take to say that it is ready. */
const READY = 20_000;

export interface Started {
  /** Its address without a trailing slash. */
  url: string;
  stop(): Promise<void>;
}

/** A copy of the drivers with their clients installed; installed again only when what they name has changed. */
export async function install(from: string, cli: boolean): Promise<string> {
  mkdirSync(CACHE, { recursive: true });
  // What is there already stays untouched: two runs may go side by side.
  const lacking = (path: string, copy: string) => !path.includes("node_modules") && !isCopy(path, copy);
  cpSync(from, CACHE, { recursive: true, filter: lacking });
  await installed(from, CACHE);
  if (cli) await installed(join(from, "cli"), join(CACHE, "cli"));
  return CACHE;
}

const isCopy = (path: string, copy: string): boolean =>
  statSync(path).isFile() && existsSync(copy) && readFileSync(path).equals(readFileSync(copy));

async function installed(from: string, folder: string): Promise<void> {
  const stamp = join(folder, "node_modules/.installed");
  const locked = existsSync(join(from, "package-lock.json"));
  const named = readFileSync(join(from, locked ? "package-lock.json" : "package.json"));
  const digest = hash("sha256", named);
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === digest) return;
  const verb = locked ? "ci" : "install";
  await run("npm", [verb, "--no-audit", "--no-fund", "--loglevel=error"], { cwd: folder });
  writeFileSync(stamp, digest);
}

/** The scripted provider on a free port. */
export const startStub = (folder: string): Promise<Started> =>
  started([join(folder, "stub-upstream.mjs"), "--port", "0", "--quiet"], /^STUB (http:\S+)/m);

/** The gateway as an operator starts it, on a free port. `folder` is made for its gateway.yaml and removed with it. */
export async function startGateway(folder: string, yaml: string): Promise<Started> {
  const file = join(folder, "gateway.yaml");
  writeFileSync(file, yaml);
  const register = join(ROOT, "src/loader/register.js");
  const gateway = await started(
    ["--import", register, join(ROOT, "src/main.ts"), "run", "--config", file],
    /listens on (http:\S+)/,
  );
  const stop = async () => {
    await gateway.stop();
    rmSync(folder, { recursive: true, force: true });
  };
  return { url: gateway.url, stop };
}

function started(args: readonly string[], ready: RegExp): Promise<Started> {
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "pipe"] });
  const exited = new Promise<void>((done) => child.once("exit", () => done()));
  const stop = async () => {
    child.kill("SIGTERM");
    const forced = setTimeout(() => child.kill("SIGKILL"), 5000);
    await exited;
    clearTimeout(forced);
  };
  return new Promise((resolve, reject) => {
    let output = "";
    const late = setTimeout(() => fail("did not become ready"), READY);
    const fail = (how: string) => {
      clearTimeout(late);
      child.kill("SIGKILL");
      reject(new Error(`${args.join(" ")} ${how}:\n${output}`));
    };
    const read = (text: string) => {
      output = (output + text).slice(-100_000);
      const url = ready.exec(output)?.[1];
      if (!url) return;
      clearTimeout(late);
      resolve({ url, stop });
    };
    child.stdout.setEncoding("utf8").on("data", read);
    child.stderr.setEncoding("utf8").on("data", read);
    child.once("error", ({ message }) => fail(message)).once("exit", (code) => fail(`ended with ${code}`));
  });
}

/** Everything a process writes until it ends; it is ended after `limit` milliseconds. */
export function outputOf(args: readonly string[], cwd: string, limit: number): Promise<string> {
  return new Promise((resolve) => {
    const child: ChildProcess = spawn(process.execPath, args, { cwd, stdio: ["ignore", "pipe", "pipe"] });
    const late = setTimeout(() => child.kill("SIGTERM"), limit);
    let output = "";
    child.stdout?.setEncoding("utf8").on("data", (text: string) => (output += text));
    child.stderr?.setEncoding("utf8").on("data", (text: string) => (output += text));
    child.once("error", (error) => (output += error.message));
    child.once("close", () => {
      clearTimeout(late);
      resolve(output);
    });
  });
}
