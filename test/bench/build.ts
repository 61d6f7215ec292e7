import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type BodyName, writeBodies } from "./bodies.ts";

/** The repository's folder. */
export const root = fileURLToPath(new URL("../../", import.meta.url));
/** This folder. */
export const here = join(root, "test/bench");
const built = join(here, "build");
const native = join(here, "native");
const bodies = join(built, "bodies");
const PORTKEY = "@portkey-ai/gateway@1.15.2";
/** The versions in Portkey's own package-lock: with current ones, it answers every stream with a 500. */
const PORTKEY_OVERRIDES = { hono: "4.9.7", "@hono/node-server": "1.13.5" };

/** Files that the build creates. */
export const tools = {
  load: join(built, "load"),
  stub: join(built, "stub"),
  calib: join(built, "calib"),
  portkey: join(built, "portkey/node_modules/@portkey-ai/gateway/build/start-server.js"),
};

/** Returns the path of a body. */
export function bodyFile(name: BodyName): string {
  return join(bodies, `${name}.json`);
}

/** Returns a program's path; undefined if it is not installed. */
export function program(name: string): string | undefined {
  const folders = [...(process.env.PATH ?? "").split(":"), "/usr/sbin"];
  return folders.map((folder) => join(folder, name)).find((file) => existsSync(file));
}

/** Returns the path of the checkout's own Node, regardless of the one that runs this script. */
export function node(): string {
  const own = join(root, "node_modules/.bin/node");
  return existsSync(own) ? own : process.execPath;
}

/** Builds the load generator, the stub upstream and the bodies, if missing or older than their sources. */
export function build(): void {
  mkdirSync(built, { recursive: true });
  const newest = Math.max(...readdirSync(native).map((file) => statSync(join(native, file)).mtimeMs));
  for (const name of ["load", "stub", "calib"]) {
    const target = join(built, name);
    if (existsSync(target) && statSync(target).mtimeMs > newest) continue;
    if (!program("gcc")) throw new Error("gcc is missing: apt-get install gcc libc6-dev");
    execFileSync("gcc", ["-O2", "-Wall", "-o", target, join(native, `${name}.c`)], { stdio: "inherit" });
  }
  writeBodies(bodies);
}

/** Installs Portkey's gateway into the build folder; it is no dependency of this project. */
export function buildPortkey(): void {
  if (existsSync(tools.portkey)) return;
  const folder = join(built, "portkey");
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "package.json"), JSON.stringify({ private: true, overrides: PORTKEY_OVERRIDES }));
  const flags = ["--no-audit", "--no-fund", "--ignore-scripts", "--engine-strict=false", "--loglevel=error"];
  const { status } = spawnSync("npm", ["install", ...flags, PORTKEY], { cwd: folder, stdio: "inherit" });
  if (status !== 0 || !existsSync(tools.portkey)) throw new Error(`npm could not install ${PORTKEY} into ${folder}`);
}
