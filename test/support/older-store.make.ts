import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as after } from "node:timers/promises";
import t from "tap";
import { OLDER, type OlderStore } from "./older-store.ts";
import { startPostgres } from "./postgres.ts";
import { ROOT } from "./processes.ts";

// Rewrites test/support/older/: dumps of the stores, in SQLite and in PostgreSQL, that the gateway and the commands of an older
// commit have written. It needs that commit in this clone, git, tar, npm with its registry, and PostgreSQL:
// OLDER_COMMIT=2161c2d0 node --import ./src/loader/register.js test/support/older-store.make.ts

const COMMIT = process.env["OLDER_COMMIT"] ?? "";
const CONFIG = `listen: 127.0.0.1:0
admin: off
instances: 1
providers: { demo: { url: "demo:" } }
models:
  echo: { targets: [demo:echo], price: { input: 1, output: 2 }, output: 100 }
  demo-error: { targets: [demo:error], price: { input: 1, output: 2 }, output: 100 }
`;

t.setTimeout(900_000);
t.test("an older store is dumped", { skip: COMMIT === "" && "set OLDER_COMMIT to a commit" }, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "gateway-older-"));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  const archive = execFileSync("git", ["archive", COMMIT], { cwd: ROOT, maxBuffer: 2 ** 28 });
  execFileSync("tar", ["-x", "-C", folder], { input: archive });
  execFileSync("npm", ["ci", "--no-audit", "--no-fund", "--prefer-offline", "--ignore-scripts"], { cwd: folder });
  const server = await startPostgres(t);
  if (!server) return;
  const url = await server.database();
  const sqlite = await written(folder, "sqlite:./gateway.db");
  const postgres = await written(folder, url);
  mkdirSync(OLDER, { recursive: true });
  writeFileSync(join(OLDER, "sqlite.sql"), sqliteDump(join(folder, "place", "gateway.db")));
  writeFileSync(join(OLDER, "postgres.sql"), postgresDump(url));
  writeFileSync(
    join(OLDER, "expected.json"),
    `${JSON.stringify({ commit: COMMIT, sqlite, postgres }, undefined, 2)}\n`,
  );
});

/** Creates keys, sends requests and revokes a key with the older code, and returns what that code reports of it. */
async function written(folder: string, ledger: string): Promise<OlderStore> {
  const place = join(folder, "place");
  mkdirSync(place, { recursive: true });
  writeFileSync(join(place, "gateway.yaml"), `${CONFIG}store: { ledger: "${ledger}" }\n`);
  const command = join(folder, "bin/model-gateway");
  const cli = (...args: string[]) => JSON.parse(execFileSync(command, [...args, "--json"], { cwd: place }).toString());
  const created = (name: string, ...more: string[]): string => cli("keys", "create", name, ...more).key;
  const valid = {
    alice: created("alice", "--group", "acme/research", "--tag", "app=search", "--owner", "Alice"),
    bob: created("bob", "--group", "acme", "--models", "echo", "--rpm", "600", "--budget", "$5/month"),
  };
  const revoked = created("carol");
  const gateway = spawn(command, ["run"], { cwd: place });
  let output = "";
  for (const stream of [gateway.stdout, gateway.stderr]) stream.on("data", (text: Buffer) => (output += text));
  while (!/listens on (\S+)/.test(output) && gateway.exitCode === null) await after(20);
  const address = /listens on (\S+)/.exec(output)?.[1];
  const send = async (key: string, model: string, stream: boolean) => {
    const body = JSON.stringify({ model, stream, messages: [{ role: "user", content: "Some words of mine." }] });
    const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
    await (await fetch(`${address}/v1/chat/completions`, { method: "POST", headers, body })).text();
  };
  for (const key of [valid.alice, valid.bob, revoked])
    for (const stream of [true, false, true]) await send(key, "echo", stream);
  await send(valid.alice, "demo-error", false);
  await send(valid.alice, "none", false);
  cli("keys", "revoke", "carol");
  const ended = once(gateway, "exit");
  gateway.kill("SIGTERM");
  await ended;
  const rows = execFileSync(command, ["usage", "--rows", "--json"], { cwd: place }).toString().trim().split("\n");
  return {
    valid,
    revoked,
    rows: rows.length,
    usage: cli("usage", "--by", "key,group,model", "--since", "2020-01-01"),
  };
}

/** Returns the schema, rows and version of a SQLite database as SQL. */
function sqliteDump(file: string): string {
  const database = new DatabaseSync(file, { readOnly: true });
  const all = (sql: string) => database.prepare(sql).all() as Record<string, string>[];
  const made = all("select name, type, sql from sqlite_schema where sql is not null and name not like 'sqlite_%'");
  const tables = made.filter(({ type }) => type === "table");
  const others = made.filter(({ type }) => type !== "table");
  const rows = tables.flatMap(({ name }) => {
    const columns = all(`pragma table_info(${name})`).map((column) => `"${column["name"]}"`);
    const values = columns.map((column) => `quote(${column})`).join(" || ', ' || ");
    return all(`select ${values} as row from ${name}`).map(({ row }) => `insert into ${name} values (${row});`);
  });
  const version = all("pragma user_version")[0]?.["user_version"];
  database.close();
  const texts = [...tables.map(({ sql }) => `${sql};`), ...rows, ...others.map(({ sql }) => `${sql};`)];
  return `${[...texts, `pragma user_version = ${version};`].join("\n")}\n`;
}

/** Returns the same of PostgreSQL, without lines that only psql or one version of the server understands. */
function postgresDump(url: string): string {
  const versions = "/usr/lib/postgresql";
  const bin = readdirSync(versions).find((version) => existsSync(join(versions, version, "bin/pg_dump"))) ?? "";
  const args = ["--inserts", "--no-owner", "--no-privileges", "--schema", "model_gateway", "-d", url];
  const text = execFileSync(join(versions, bin, "bin/pg_dump"), args).toString();
  const lines = text.split("\n").filter((line) => !/^(?:\\|--|SET |SELECT pg_catalog\.set_config|$)/.test(line));
  return `${lines.join("\n")}\n`;
}
