import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { constants, homedir, tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { suggestion } from "../config/suggest.ts";
import { formatAddress } from "../config/units.ts";
import { compileGlob } from "../core/glob.ts";
import { reachableHost } from "../core/networks.ts";
import { type Client, type ClientValues, fillPlaceholders, loadClients } from "../loader/clients.ts";
import { UsageError } from "../text/format-error.ts";
import { printTable } from "../text/table.ts";
import type { ChooseModel } from "./first-request.ts";
import { shellWord } from "./shell.ts";
import { COMMAND, FRONT_OPTIONS, parseBaseUrl, parseVerbArguments, printJson, type Terminal } from "./verb.ts";

/** Printed if no key is known. */
export const KEY_VARIABLE = "$GATEWAY_KEY";

/** The parts of gateway.yaml that the verb needs. */
export interface ConnectSettings {
  listen: { host: string; port: number };
  /** Ids and aliases; those with a provider that is on come first. */
  models: readonly string[];
  /** Chooses the model of a client for which none is named; absent: the first one. */
  choose?: ChooseModel;
}

/**
 * Runs the verb `connect`. Returns 0, 1 if there is no model or the client cannot be started, or the started client's exit code.
 * @throws UsageError
 */
export async function runConnect(
  args: readonly string[],
  io: Terminal,
  loadSettings: () => Promise<ConnectSettings>,
): Promise<number> {
  const end = args.indexOf("--");
  const { values, positionals } = parseVerbArguments(end < 0 ? args : args.slice(0, end), FRONT_OPTIONS, 1);
  const clients = loadClients();
  const [name] = positionals;
  if (name === undefined) {
    if (end >= 0) throw new UsageError("-- needs a client before it.");
    const option = Object.keys(values).find((each) => each !== "json");
    if (option !== undefined) throw new UsageError(`--${option} needs a client before it.`);
    return listClients(clients, io, values.json === true);
  }
  const client = clients.find(({ id }) => id === name);
  if (!client) throw new UsageError(unknownClient(name, clients));
  const { listen, models, choose } = await loadSettings();
  const first = choose?.(client.protocol) ?? models[0];
  if (first === undefined) {
    io.err(
      `The gateway has no model yet, so no client can use it. Add one to gateway.yaml, like  models: { fast: { targets: ["PROVIDER:MODEL"] } }, or see which ones the keys in your environment allow: ${COMMAND} init --out -`,
    );
    return 1;
  }
  const settings: ClientValues = {
    address: parseBaseUrl(values.url ?? localUrl(listen)),
    key: values.key ?? io.env["GATEWAY_KEY"] ?? KEY_VARIABLE,
    model: values.model === undefined ? first : knownModel(values.model, models),
  };
  if (end >= 0) return startClient(client, settings, args.slice(end + 1), io);
  if (values.json) printJson(clientSettings(client, settings), io);
  else for (const line of clientLines(client, settings)) io.out(line);
  return 0;
}

function unknownClient(name: string, clients: readonly Client[]): string {
  const ids = clients.map(({ id }) => id);
  return `unknown client "${name}"${suggestion(name, ids)} Known: ${ids.join(" ")}`;
}

/** @throws UsageError for a model that the gateway does not have: the client's own error would be less clear */
function knownModel(requested: string, models: readonly string[]): string {
  if (models.some((each) => each === requested || compileGlob(each).test(requested))) return requested;
  throw new UsageError(`no model "${requested}" in gateway.yaml${suggestion(requested, models)}`);
}

/** Returns the address at which clients on this machine reach a listener. */
export const localUrl = ({ host, port }: ConnectSettings["listen"]): string =>
  `http://${formatAddress({ host: reachableHost(host), port })}`;

/** Returns the clients whose program or settings are on this machine. */
export function installedClients(
  clients: readonly Client[],
  { env }: Pick<Terminal, "env">,
  home = homedir(),
): Client[] {
  const folders = (env["PATH"] ?? "").split(delimiter).filter(Boolean);
  return clients.filter(
    ({ command, home: own }) =>
      (command !== undefined && folders.some((folder) => existsSync(join(folder, command)))) ||
      (own !== undefined && existsSync(join(home, own))),
  );
}

function listClients(clients: readonly Client[], io: Terminal, json: boolean): number {
  const here = new Set(installedClients(clients, io, io.env["HOME"]));
  if (json) {
    const rows = clients.map((client) => ({
      id: client.id,
      name: client.name,
      kind: client.kind,
      protocol: client.protocol,
      here: here.has(client),
    }));
    printJson(rows, io);
    return 0;
  }
  const columns = ["CLIENT", "NAME", "KIND", "PROTOCOL", "HERE"];
  const rows = clients.map((client) => [
    client.id,
    client.name,
    client.kind,
    client.protocol,
    here.has(client) ? "yes" : "-",
  ]);
  printTable(columns, rows, io);
  return 0;
}

const clientSettings = (client: Client, settings: ClientValues) => ({
  client: client.id,
  name: client.name,
  protocol: client.protocol,
  ...settings,
  env: clientEnvironment(client, settings),
  unset: client.unset,
  arguments: client.arguments.map((argument) => fillPlaceholders(argument, settings)),
  files: client.files.map(({ text, ...rest }) => ({ ...rest, text: fillPlaceholders(text, settings) })),
  snippets: client.snippets.map(({ text, ...rest }) => ({ ...rest, text: fillPlaceholders(text, settings) })),
  notes: client.notes.map((note) => fillPlaceholders(note, settings)),
});

const clientEnvironment = ({ env }: Client, settings: ClientValues): Record<string, string> =>
  Object.fromEntries(Object.entries(env).map(([name, text]) => [name, fillPlaceholders(text, settings)]));

/** Describes settings for people; text to paste starts at the beginning of a line. */
export function clientLines(client: Client, settings: ClientValues): string[] {
  const { env, unset, files, snippets, notes } = clientSettings(client, settings);
  const lines = [`# ${client.name}, at ${settings.address}`];
  if (Object.keys(env).length > 0) {
    lines.push("", "# in a shell:");
    for (const [name, value] of Object.entries(env)) lines.push(`export ${name}=${quoteKey(value)}`);
    if (unset.length > 0) lines.push(`unset ${unset.join(" ")}`);
  }
  for (const { path, text } of files)
    lines.push("", `# ${Object.keys(env).length > 0 ? "or for good, in " : ""}${path}:`, text.trimEnd());
  for (const { language, install, text } of snippets)
    lines.push("", `# ${language}${install === undefined ? "" : ` (${install})`}:`, text.trimEnd());
  for (const note of notes) lines.push("", `# ${note}`);
  if (client.command !== undefined)
    lines.push("", `# or start it once with these settings: ${COMMAND} connect ${client.id} --`);
  if (settings.key === KEY_VARIABLE) lines.push("", `# create a key with: ${COMMAND} keys create NAME`);
  return lines;
}

/** Describes the settings of all clients found on this machine; empty without clients. */
export function installedClientLines(
  settings: Omit<ClientValues, "model">,
  choose: ChooseModel,
  io: Terminal,
): string[] {
  const here = installedClients(loadClients(), io, io.env["HOME"]);
  if (here.length === 0) return [];
  const title = `clients on this machine, and their settings (again with: ${COMMAND} connect ID):`;
  const linesOf = (client: Client) => {
    const model = choose(client.protocol);
    return model === undefined ? [] : ["", ...clientLines(client, { ...settings, model })];
  };
  return ["", title, ...here.flatMap(linesOf)];
}

/** Quotes a text as one word of a POSIX shell; `KEY_VARIABLE` stays a variable. */
export const quoteKey = (text: string): string => (text === KEY_VARIABLE ? `"${text}"` : shellWord(text));

async function startClient(
  client: Client,
  settings: ClientValues,
  args: readonly string[],
  io: Terminal,
): Promise<number> {
  const { command, unset, temporary } = client;
  if (command === undefined) throw new UsageError(`${client.name} is not a program that connect can start.`);
  if (settings.key === KEY_VARIABLE)
    throw new UsageError("--key or the variable GATEWAY_KEY must contain a key of the gateway.");
  const folder = mkdtempSync(join(tmpdir(), "gateway-connect-"));
  try {
    const env: NodeJS.ProcessEnv = { ...io.env, ...clientEnvironment(client, settings) };
    for (const name of unset) delete env[name];
    for (const [name, text] of Object.entries(temporary)) {
      env[name] = join(folder, name.toLowerCase());
      writeFileSync(env[name], fillPlaceholders(text, settings), { mode: 0o600 });
    }
    const all = [...clientSettings(client, settings).arguments, ...args];
    return await waitForExit(spawn(command, all, { cwd: io.folder, env, stdio: "inherit" }), command, io);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Signals that end this process: SIGHUP when its terminal is closed. */
const PASSED_ON = ["SIGTERM", "SIGHUP"] as const;

/**
 * Returns the program's exit code, or 128 plus the signal's number as in shells. Ctrl-C is left to the program, which has got it as
 * well; other signals are passed on, so that it ends as well, and its temporary files are removed.
 */
async function waitForExit(child: ChildProcess, command: string, io: Terminal): Promise<number> {
  const ignore = () => {};
  const passOn = (signal: NodeJS.Signals) => child.kill(signal);
  process.on("SIGINT", ignore);
  for (const signal of PASSED_ON) process.on(signal, passOn);
  try {
    return await new Promise<number>((done) => {
      child.once("error", (error: NodeJS.ErrnoException) => {
        io.err(error.code === "ENOENT" ? `${command} is not on PATH: install it first.` : error.message);
        done(1);
      });
      child.once("exit", (code, signal) => done(code ?? 128 + constants.signals[signal as NodeJS.Signals]));
    });
  } finally {
    process.off("SIGINT", ignore);
    for (const signal of PASSED_ON) process.off(signal, passOn);
  }
}
