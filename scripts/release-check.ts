// npm run release:check: packs, installs in an empty folder as an operator does, upgrades a store that an older version
// wrote, checks, runs, streams, stops.
// With --managers it also installs with pnpm, yarn and bun, those that are on this machine.
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type OlderStore, writeOlderSqlite } from "../test/support/older-store.ts";
import { bytesIn, MAX_INSTALLED, megabytes } from "./installed.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const KEY = "release-key-0123456789abcdef";

interface Manager {
  name: string;
  install(tarball: string): readonly string[];
}

const MANAGERS: readonly Manager[] = [
  { name: "npm", install: (tarball) => ["install", "--no-audit", "--no-fund", "--prefer-offline", tarball] },
  { name: "pnpm", install: (tarball) => ["add", "--prefer-offline", tarball] },
  { name: "yarn", install: (tarball) => ["add", `model-gateway@file:${tarball}`] },
  { name: "bun", install: (tarball) => ["add", tarball] },
];

const folder = mkdtempSync(join(tmpdir(), "gateway-release-"));

function run(cwd: string, command: string, args: readonly string[]): string {
  const { status, stdout, stderr, error } = spawnSync(command, args, { cwd, encoding: "utf8", env: cleanEnv() });
  if (status === 0) return stdout;
  throw new Error(`${command} ${args.join(" ")} ended with ${status ?? error?.message}:\n${stdout}${stderr}`);
}

/** Without what npm tells a script of this checkout. */
function cleanEnv(): NodeJS.ProcessEnv {
  return Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !/^npm_|^NODE_OPTIONS$|_API_KEY$/i.test(name)),
  );
}

async function checkGateway(place: string): Promise<void> {
  writeFileSync(
    join(place, "gateway.yaml"),
    `listen: 127.0.0.1:0\nadmin: off\nproviders: { demo: { url: "demo:" } }\nmodels: { echo: { targets: [demo:echo] } }\nkeys: { release: { key: ${KEY} } }\n`,
  );
  mkdirSync(join(place, "data"), { mode: 0o700 });
  const older = writeOlderSqlite(join(place, "data", "gateway.db"));
  const command = join(place, "node_modules/.bin/model-gateway");
  run(place, command, ["check"]);
  const gateway = spawn(command, ["run"], { cwd: place, env: cleanEnv() });
  try {
    let told = "";
    const address = await new Promise<string>((done, failed) => {
      for (const stream of [gateway.stdout, gateway.stderr])
        stream.on("data", (text: Buffer) => {
          told += text;
          const found = /listens on (\S+)/.exec(told)?.[1];
          if (found) done(found);
        });
      gateway.on("exit", () => failed(new Error(told)));
      setTimeout(() => failed(new Error(`no gateway after a minute: ${told}`)), 60_000).unref();
    });
    for (const key of [KEY, ...Object.values(older.valid)]) {
      const { status, text } = await requestStream(address, key);
      if (status !== 200 || !text.includes("[DONE]")) throw new Error(`${status}: ${text}`);
    }
    const refused = await requestStream(address, older.revoked);
    if (refused.status !== 401) throw new Error(`a revoked key got ${refused.status}: ${refused.text}`);
    const ended = new Promise<number | null>((done) => gateway.once("exit", done));
    gateway.kill("SIGTERM");
    const code = await ended;
    if (code !== 0) throw new Error(`stopped with ${code}`);
    checkUpgraded(older, run(place, command, ["usage", "--rows", "--json"]));
  } finally {
    gateway.kill("SIGKILL");
  }
}

/** Sends a streamed request with a key. */
async function requestStream(address: string, key: string): Promise<{ status: number; text: string }> {
  const answer = await fetch(`${address}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "echo", stream: true, messages: [{ role: "user", content: "released" }] }),
  });
  return { status: answer.status, text: await answer.text() };
}

/**
 * Compares the ledger's rows with those of the older store and of the four requests above.
 * @throws Error when a row is missing or a cost is another
 */
function checkUpgraded(older: OlderStore, text: string): void {
  const rows = text
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as { cost?: number });
  const cost = (all: readonly { cost?: number }[]) => all.reduce((sum, { cost = 0 }) => sum + cost, 0);
  if (rows.length === older.rows + 4 && cost(rows) === cost(older.usage)) return;
  throw new Error(
    `the ledger should have ${older.rows} rows of ${cost(older.usage)} nano-dollars and 4 new ones: ${text}`,
  );
}

async function checkManager(manager: Manager, tarball: string): Promise<void> {
  const place = join(folder, manager.name);
  mkdirSync(place);
  writeFileSync(join(place, "package.json"), '{ "name": "operator", "private": true }\n');
  // Newer yarns put packages elsewhere otherwise, and look for a project above.
  if (manager.name === "yarn") {
    writeFileSync(join(place, ".yarnrc.yml"), "nodeLinker: node-modules\nenableGlobalCache: false\n");
    writeFileSync(join(place, "yarn.lock"), "");
  }
  run(place, manager.name, manager.install(tarball));
  const size = bytesIn(join(place, "node_modules"));
  await checkGateway(place);
  console.log(
    `ok   ${manager.name}: installed (${megabytes(size)} without Node), checked, ran, streamed, stopped, with a store of an older version`,
  );
  if (manager.name !== "npm" || size <= MAX_INSTALLED) return;
  console.error(`NOT ok: ${size} bytes are more than ${MAX_INSTALLED}`);
  process.exitCode = 1;
}

try {
  const packed = run(ROOT, "npm", ["pack", "--silent", "--pack-destination", folder]).trim().split("\n").at(-1) ?? "";
  const tarball = join(folder, packed);
  console.log(`ok   packed ${packed}: ${(statSync(tarball).size / 1024).toFixed(0)} KiB`);
  const wanted = process.argv.includes("--managers") ? MANAGERS : MANAGERS.slice(0, 1);
  for (const manager of wanted) {
    const there = (process.env["PATH"] ?? "").split(":").some((each) => existsSync(join(each, manager.name)));
    if (there) await checkManager(manager, tarball);
    else console.log(`skip ${manager.name}: not on this machine`);
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
