import { existsSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import * as check from "./cli/check.ts";
import * as keys from "./cli/keys.ts";
import * as run from "./cli/run.ts";
import * as schema from "./cli/schema.ts";
import * as usage from "./cli/usage.ts";
import { COMMAND, type Terminal } from "./cli/verb.ts";
import { loadConfig } from "./config/load.ts";
import { ConfigError } from "./config/problems.ts";
import { words } from "./gateway.ts";
import { rehearse } from "./rehearsal.ts";
import { openStores } from "./store/open.ts";

const HELP = `usage: ${COMMAND} VERB …

  ${[run, check, schema, keys, usage].map((verb) => verb.help).join("\n  ")}
  help                         this text

Every verb takes --config FILE; without it, gateway.yaml of this folder or the one that came along.`;

interface VerbPlace {
  file: string;
  /** Where relative paths in the file start. */
  folder: string;
}

/**
 * The file named by --config, the folder's own, or the one that came along, whose paths then start in the working folder:
 * an installed package is no place for a ledger. `--config` is taken out of the arguments.
 */
function placeOf(args: string[], folder: string): VerbPlace {
  const at = args.findIndex((arg) => arg === "--config" || arg.startsWith("--config="));
  const flag = at < 0 ? undefined : args[at];
  if (flag !== undefined) {
    const inline = flag.includes("=");
    const value = inline ? flag.slice("--config=".length) : args[at + 1];
    args.splice(at, inline ? 1 : 2);
    if (value) return { file: resolve(folder, value), folder: dirname(resolve(folder, value)) };
  }
  const own = join(folder, "gateway.yaml");
  return { file: existsSync(own) ? own : fileURLToPath(new URL("../gateway.yaml", import.meta.url)), folder };
}

/** Keys and usage need the file's store, whatever else is wrong in it. */
async function withStores(
  { file, folder }: VerbPlace,
  io: Terminal,
  act: (stores: ReturnType<typeof openStores>) => Promise<number>,
): Promise<number> {
  const config = await loadConfig(file, await words(folder), io.env, folder);
  const stores = openStores(config.store.ledger, config.keys, io.err);
  try {
    return await act(stores);
  } finally {
    await stores.close();
  }
}

/** Ends the process itself: a plugin that was only tried may leave a timer or a connection behind. */
async function checked(args: string[], io: Terminal, folder: string): Promise<never> {
  const vocabulary = await words(folder);
  process.exit(await check.run(args, io, vocabulary, (config) => rehearse(config, vocabulary)));
}

async function main(argv: readonly string[]): Promise<number> {
  const io: Terminal = {
    out: (line) => void process.stdout.write(`${line}\n`),
    err: (line) => void process.stderr.write(`${line}\n`),
    env: process.env,
    folder: process.cwd(),
  };
  const args = [...argv];
  const place = placeOf(args, io.folder);
  const verb = args[0] === undefined || args[0].startsWith("--") ? "run" : (args.shift() as string);
  if (verb === "help" || args.includes("--help") || args.includes("-h")) {
    io.out(HELP);
    return 0;
  }
  switch (verb) {
    case "run":
      return run.run(args, io, place);
    case "check":
      return checked(args.some((arg) => !arg.startsWith("-")) ? args : [...args, place.file], io, place.folder);
    case "schema":
      return schema.run(args, io, await words(place.folder));
    case "keys":
      return withStores(place, io, (stores) => keys.run(args, io, stores));
    case "usage":
      return withStores(place, io, (stores) => usage.run(args, io, stores));
    default:
      io.err(`unknown verb "${verb}"\n\n${HELP}`);
      return 2;
  }
}

try {
  process.exitCode = await main(process.argv.slice(2).filter((arg) => arg !== "--"));
} catch (thrown) {
  const error = thrown as Error;
  process.stderr.write(`${thrown instanceof ConfigError ? error.message : (error.stack ?? String(thrown))}\n`);
  process.exitCode = 1;
}
