// npm run release:check: packs, installs in an empty folder like an operator, migrates a store of the previous version, checks,
// runs, streams, stops.
// With --managers it also installs with pnpm, yarn and bun, if they are on this machine.
import { spawn, spawnSync } from "node:child_process";
import { hash } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { fileURLToPath } from "node:url";
import { newKey } from "../src/store/key-format.ts";
import { bytesIn, LARGEST, mebibytes } from "./installed.ts";

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
  const { status, stdout, stderr, error } = spawnSync(command, args, { cwd, encoding: "utf8", env: clean() });
  if (status === 0) return stdout;
  throw new Error(`${command} ${args.join(" ")} ended with ${status ?? error?.message}:\n${stdout}${stderr}`);
}

/** Returns the environment without npm's variables for scripts of this checkout. */
function clean(): NodeJS.ProcessEnv {
  return Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !/^npm_|^NODE_OPTIONS$|_API_KEY$/i.test(name)),
  );
}

/**
 * Creates a store like the previous version's: all migrations but the newest, a key and a row of usage.
 * @returns the key
 */
function olderStore(place: string): string {
  const migrations = join(ROOT, "src/store/sqlite/migrations");
  const older = readdirSync(migrations).sort().slice(0, -1);
  mkdirSync(join(place, "data"), { mode: 0o700 });
  const database = new DatabaseSync(join(place, "data", "gateway.db"));
  for (const file of older) database.exec(readFileSync(join(migrations, file), "utf8"));
  const { id, key } = newKey();
  database.prepare("insert into key (hash, id, name, created) values (?, ?, 'older', 1)").run(hash("sha256", key), id);
  database.exec(`insert into usage_kind (number, key, model, target, protocol, operation, status, outcome, streaming, source, price)
      values (1, '${id}', 'older-model', 'p:m', 'w', 'o', 200, 'completed', 0, 'reported', '');
    insert into usage (id, time, kind, attempts, duration, cost, tokens_in) values ('one', ${Date.now() - 60_000}, 1, '[]', 1, 7, 11);
    pragma user_version = ${older.length}`);
  database.close();
  return key;
}

async function serves(place: string): Promise<string> {
  writeFileSync(
    join(place, "gateway.yaml"),
    `listen: 127.0.0.1:0\nadmin: off\nproviders: { demo: { url: "demo:" } }\nmodels: { echo: { targets: [demo:echo] } }\nkeys: { release: { key: ${KEY} } }\n`,
  );
  const older = olderStore(place);
  const command = join(place, "node_modules/.bin/model-gateway");
  run(place, command, ["check"]);
  const gateway = spawn(command, ["run"], { cwd: place, env: clean() });
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
    for (const key of [KEY, older]) {
      const answer = await fetch(`${address}/v1/chat/completions`, {
        method: "POST",
        headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
        body: JSON.stringify({ model: "echo", stream: true, messages: [{ role: "user", content: "released" }] }),
      });
      const text = await answer.text();
      if (answer.status !== 200 || !text.includes("[DONE]")) throw new Error(`${answer.status}: ${text}`);
    }
    const ended = new Promise<number | null>((done) => gateway.once("exit", done));
    gateway.kill("SIGTERM");
    const code = await ended;
    if (code !== 0) throw new Error(`stopped with ${code}`);
    const rows = run(place, command, ["usage", "--rows", "--json"]);
    for (const model of ["echo", "older-model"])
      if (!rows.includes(`"${model}"`)) throw new Error(`the ledger has no row of ${model}: ${rows}`);
    return address;
  } finally {
    gateway.kill("SIGKILL");
  }
}

async function tried(manager: Manager, tarball: string): Promise<void> {
  const place = join(folder, manager.name);
  mkdirSync(place);
  writeFileSync(join(place, "package.json"), '{ "name": "operator", "private": true }\n');
  // By default newer yarns use another layout, and search for a project in parent folders.
  if (manager.name === "yarn") {
    writeFileSync(join(place, ".yarnrc.yml"), "nodeLinker: node-modules\nenableGlobalCache: false\n");
    writeFileSync(join(place, "yarn.lock"), "");
  }
  run(place, manager.name, manager.install(tarball));
  const size = bytesIn(join(place, "node_modules"));
  await serves(place);
  console.log(
    `ok   ${manager.name}: installed (${mebibytes(size)} without Node), checked, ran, streamed, stopped, with a store of the version before`,
  );
  if (manager.name !== "npm" || size <= LARGEST) return;
  console.error(`NOT ok: ${size} bytes are more than ${LARGEST}`);
  process.exitCode = 1;
}

try {
  const packed = run(ROOT, "npm", ["pack", "--silent", "--pack-destination", folder]).trim().split("\n").at(-1) ?? "";
  const tarball = join(folder, packed);
  console.log(`ok   packed ${packed}: ${(statSync(tarball).size / 1024).toFixed(0)} KiB`);
  const wanted = process.argv.includes("--managers") ? MANAGERS : MANAGERS.slice(0, 1);
  for (const manager of wanted) {
    const there = (process.env["PATH"] ?? "").split(":").some((each) => existsSync(join(each, manager.name)));
    if (there) await tried(manager, tarball);
    else console.log(`skip ${manager.name}: not on this machine`);
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
