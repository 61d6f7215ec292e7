import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { nearest } from "../config/suggest.ts";
import { globOf } from "../core/glob.ts";
import { type Client, type ClientValues, filled, loadClients } from "../loader/clients.ts";
import { Misuse } from "../text/reason.ts";
import { table } from "../text/table.ts";
import { shellWord } from "./shell.ts";
import { argumentsOf, COMMAND, type Terminal } from "./verb.ts";

const OPTIONS = {
  url: { type: "string" },
  key: { type: "string" },
  model: { type: "string" },
  json: { type: "boolean" },
} as const;

/** Printed if no key is known. */
export const NO_KEY = "$GATEWAY_KEY";

/** The parts of gateway.yaml that the verb needs. */
export interface ConnectPlace {
  listen: { host: string; port: number };
  /** Ids and aliases; those with a provider that is on come first. */
  models: readonly string[];
}

/** Runs the verb `connect`. Returns 0, 1 if the client cannot be started, or the started client's exit code. @throws Misuse */
export async function run(args: readonly string[], io: Terminal, place: () => Promise<ConnectPlace>): Promise<number> {
  const end = args.indexOf("--");
  const { values, positionals } = argumentsOf(end < 0 ? args : args.slice(0, end), OPTIONS, 1);
  const clients = loadClients();
  const [name] = positionals;
  if (name === undefined) {
    if (end >= 0) throw new Misuse("-- needs a client in front of it.");
    return list(clients, io, values.json === true);
  }
  const client = clients.find(({ id }) => id === name);
  if (!client) throw new Misuse(unknownClient(name, clients));
  const { listen, models } = await place();
  const settings: ClientValues = {
    address: baseOf(values.url ?? addressOf(listen)),
    key: values.key ?? io.env["GATEWAY_KEY"] ?? NO_KEY,
    model: modelOf(values.model, models),
  };
  if (end >= 0) return start(client, settings, args.slice(end + 1), io);
  if (values.json) io.out(JSON.stringify(settingsOf(client, settings), undefined, 2));
  else for (const line of told(client, settings)) io.out(line);
  return 0;
}

function unknownClient(name: string, clients: readonly Client[]): string {
  const ids = clients.map(({ id }) => id);
  const near = nearest(name, ids);
  return `unknown client "${name}"${near === undefined ? "." : `, did you mean "${near}"?`} Known: ${ids.join(" ")}`;
}

/** @throws Misuse for a model that the gateway does not have: the client's own error would be less clear */
function modelOf(asked: string | undefined, models: readonly string[]): string {
  if (asked === undefined) return models[0] ?? "MODEL";
  if (models.some((each) => each === asked || globOf(each).test(asked))) return asked;
  const near = nearest(asked, models);
  throw new Misuse(`no model "${asked}" in gateway.yaml${near === undefined ? "." : `, did you mean "${near}"?`}`);
}

/** Returns the address at which clients on this machine reach a listener. */
export const addressOf = ({ host, port }: ConnectPlace["listen"]): string => {
  const near = host === "0.0.0.0" ? "127.0.0.1" : host === "::" ? "::1" : host;
  return `http://${near.includes(":") ? `[${near}]` : near}:${port}`;
};

/** @throws Misuse for an invalid address */
function baseOf(text: string): string {
  const url = URL.parse(text);
  if (!url || !/^https?:$/.test(url.protocol))
    throw new Misuse(`--url "${text}" is no address, like https://gateway.example.com`);
  return text.replace(/\/+$/, "").replace(/\/v1(?:beta)?$/, "");
}

/** Returns the clients whose program or settings are on this machine. */
export function clientsHere(clients: readonly Client[], { env }: Pick<Terminal, "env">, home = homedir()): Client[] {
  const folders = (env["PATH"] ?? "").split(delimiter).filter(Boolean);
  return clients.filter(
    ({ command, home: own }) =>
      (command !== undefined && folders.some((folder) => existsSync(join(folder, command)))) ||
      (own !== undefined && existsSync(join(home, own))),
  );
}

function list(clients: readonly Client[], io: Terminal, json: boolean): number {
  const here = new Set(clientsHere(clients, io, io.env["HOME"]));
  if (json) {
    const rows = clients.map((client) => ({
      id: client.id,
      name: client.name,
      kind: client.kind,
      protocol: client.protocol,
      here: here.has(client),
    }));
    io.out(JSON.stringify(rows, undefined, 2));
    return 0;
  }
  const columns = ["CLIENT", "NAME", "KIND", "PROTOCOL", "HERE"].map((title) => ({ title }));
  const rows = clients.map((client) => [
    client.id,
    client.name,
    client.kind,
    client.protocol,
    here.has(client) ? "yes" : "-",
  ]);
  for (const line of table(columns, rows)) io.out(line);
  return 0;
}

const settingsOf = (client: Client, settings: ClientValues) => ({
  client: client.id,
  name: client.name,
  protocol: client.protocol,
  ...settings,
  env: environmentOf(client, settings),
  unset: client.unset,
  arguments: client.arguments.map((argument) => filled(argument, settings)),
  files: client.files.map(({ text, ...rest }) => ({ ...rest, text: filled(text, settings) })),
  snippets: client.snippets.map(({ text, ...rest }) => ({ ...rest, text: filled(text, settings) })),
  notes: client.notes.map((note) => filled(note, settings)),
});

const environmentOf = ({ env }: Client, settings: ClientValues): Record<string, string> =>
  Object.fromEntries(Object.entries(env).map(([name, text]) => [name, filled(text, settings)]));

/** Describes settings for people; text to paste starts at the beginning of a line. */
export function told(client: Client, settings: ClientValues): string[] {
  const { env, unset, files, snippets, notes } = settingsOf(client, settings);
  const lines = [`# ${client.name}, at ${settings.address}`];
  if (Object.keys(env).length > 0) {
    lines.push("", "# in a shell:");
    for (const [name, value] of Object.entries(env)) lines.push(`export ${name}=${quoted(value)}`);
    if (unset.length > 0) lines.push(`unset ${unset.join(" ")}`);
  }
  for (const { path, text } of files)
    lines.push("", `# ${Object.keys(env).length > 0 ? "or for good, in " : ""}${path}:`, text.trimEnd());
  for (const { language, install, text } of snippets)
    lines.push("", `# ${language}${install === undefined ? "" : ` (${install})`}:`, text.trimEnd());
  for (const note of notes) lines.push("", `# ${note}`);
  if (client.command !== undefined) lines.push("", `# or start it with that, once: ${COMMAND} connect ${client.id} --`);
  if (settings.key === NO_KEY) lines.push("", `# a key is made with: ${COMMAND} keys create NAME`);
  return lines;
}

/** Describes the settings of all clients found on this machine; empty without clients. */
export function toldHere(settings: ClientValues, io: Terminal): string[] {
  const here = clientsHere(loadClients(), io, io.env["HOME"]);
  if (here.length === 0) return [];
  const title = `clients on this machine, and what each is told (again with: ${COMMAND} connect ID):`;
  return ["", title, ...here.flatMap((client) => ["", ...told(client, settings)])];
}

/** Quotes a text as one word of a POSIX shell; `NO_KEY` stays a variable. */
export const quoted = (text: string): string => (text === NO_KEY ? `"${text}"` : shellWord(text));

async function start(client: Client, settings: ClientValues, args: readonly string[], io: Terminal): Promise<number> {
  const { command, unset, temporary } = client;
  if (command === undefined) throw new Misuse(`${client.name} is no program that could be started.`);
  if (settings.key === NO_KEY) throw new Misuse("--key or the variable GATEWAY_KEY must hold a key of the gateway.");
  const folder = mkdtempSync(join(tmpdir(), "gateway-connect-"));
  try {
    const env: NodeJS.ProcessEnv = { ...io.env, ...environmentOf(client, settings) };
    for (const name of unset) delete env[name];
    for (const [name, text] of Object.entries(temporary)) {
      env[name] = join(folder, name.toLowerCase());
      writeFileSync(env[name], filled(text, settings), { mode: 0o600 });
    }
    const all = [...settingsOf(client, settings).arguments, ...args];
    return await ended(spawn(command, all, { cwd: io.folder, env, stdio: "inherit" }), command, io);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Returns the program's exit code, or 128 plus the signal's number as in shells. Ctrl-C is left to the program. */
async function ended(child: ChildProcess, command: string, io: Terminal): Promise<number> {
  const ignore = () => {};
  process.on("SIGINT", ignore);
  try {
    return await new Promise<number>((done) => {
      child.once("error", (error: NodeJS.ErrnoException) => {
        io.err(error.code === "ENOENT" ? `${command} is not on PATH: install it first.` : error.message);
        done(1);
      });
      child.once("exit", (code, signal) => done(code ?? (signal === "SIGINT" ? 130 : 143)));
    });
  } finally {
    process.off("SIGINT", ignore);
  }
}
