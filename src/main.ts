import { existsSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import * as check from "./cli/check.ts";
import * as groups from "./cli/groups.ts";
import * as keys from "./cli/keys.ts";
import * as models from "./cli/models.ts";
import { reason } from "./cli/reason.ts";
import * as reconcile from "./cli/reconcile.ts";
import * as run from "./cli/run.ts";
import * as schema from "./cli/schema.ts";
import * as store from "./cli/store.ts";
import * as usage from "./cli/usage.ts";
import { COMMAND, type Terminal } from "./cli/verb.ts";
import { loadConfig } from "./config/load.ts";
import { words } from "./gateway.ts";
import { priceDoubts } from "./prices/doubts.ts";
import { rehearse } from "./rehearsal.ts";
import { openMaintenance, openStores, restoreStore } from "./store/open.ts";

const VERBS = { run, check, schema, models, keys, groups, usage, reconcile, store };

const HELP = `usage: ${COMMAND} VERB …

  ${Object.values(VERBS)
    .map((verb) => verb.help)
    .join("\n  ")}
  help                         this text; VERB --help: what one verb takes
  --version                    the version of this program

Every verb takes --config FILE; without it, gateway.yaml of this folder or the one that came along.`;

/** The help of one verb. */
const helpOf = (verb: { help: string; USAGE?: string }): string => verb.USAGE ?? `usage: ${COMMAND} ${verb.help}`;

/** What the command line says is wrong with it. */
class Misuse extends Error {}

interface VerbPlace {
  file: string;
  /** Where relative paths in the file start. */
  folder: string;
}

/**
 * The file named by --config, the folder's own, or the one that came along, whose paths then start in the working folder:
 * an installed package is no place for a ledger. `--config` is taken out of the arguments.
 * @throws Misuse where it names no file: the default would be another one than was meant.
 */
function placeOf(args: string[], folder: string): VerbPlace {
  const at = args.findIndex((arg) => arg === "--config" || arg.startsWith("--config="));
  const flag = at < 0 ? undefined : args[at];
  if (flag !== undefined) {
    const inline = flag.includes("=");
    const value = inline ? flag.slice("--config=".length) : args[at + 1];
    args.splice(at, inline ? 1 : 2);
    if (!value || (!inline && value.startsWith("-")))
      throw new Misuse("--config needs a file, like --config gateway.yaml; an unset variable leaves it empty.");
    return { file: resolve(folder, value), folder: dirname(resolve(folder, value)) };
  }
  const own = join(folder, "gateway.yaml");
  return { file: existsSync(own) ? own : fileURLToPath(new URL("../gateway.yaml", import.meta.url)), folder };
}

/** Keys and usage need the file's store, whatever else is wrong in it. */
async function withStores(
  { file, folder }: VerbPlace,
  io: Terminal,
  act: (stores: ReturnType<typeof openStores>, models: readonly string[]) => Promise<number>,
): Promise<number> {
  const config = await loadConfig(file, await words(folder), io.env, folder);
  const stores = openStores(config.store.ledger, config.keys, io.err, config.store);
  try {
    const models = config.models.map(({ id }) => id);
    return await act(stores, models);
  } finally {
    await stores.close();
  }
}

/** Who reads what is printed may leave before its end, as `head` does. */
function endWithReader(): void {
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code === "EPIPE") process.exit(0);
    throw error;
  });
}

/** Ends the process itself: a plugin that was only tried may leave a timer or a connection behind. */
async function checked(args: readonly string[], io: Terminal, place: VerbPlace): Promise<never> {
  const named = args.find((arg) => !arg.startsWith("-"));
  const file = named === undefined ? place.file : resolve(io.folder, named);
  const vocabulary = await words(dirname(file));
  const all = named === undefined ? [...args, file] : args;
  process.exit(await check.run(all, io, vocabulary, (config) => rehearse(config, vocabulary), priceDoubts));
}

const version = (): string =>
  (JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")) as { version: string }).version;

async function main(argv: readonly string[]): Promise<number> {
  const io: Terminal = {
    out: (line) => void process.stdout.write(`${line}\n`),
    err: (line) => void process.stderr.write(`${line}\n`),
    env: process.env,
    folder: process.cwd(),
  };
  const args = [...argv];
  if (args[0] === "--version") {
    io.out(version());
    return 0;
  }
  const place = placeOf(args, io.folder);
  const word = args[0]?.startsWith("-") ? undefined : args.shift();
  if (word === "help" || args.includes("--help") || args.includes("-h")) {
    const named = Object.entries(VERBS).find(([name]) => name === word)?.[1];
    io.out(named ? helpOf(named) : HELP);
    return 0;
  }
  const verb = word ?? "run";
  switch (verb) {
    case "run":
      return run.run(args, io, place);
    case "check":
      return checked(args, io, place);
    case "schema":
      return schema.run(args, io, await words(place.folder));
    case "models":
      return models.run(args, io, await loadConfig(place.file, await words(place.folder), io.env, place.folder));
    case "keys":
      return withStores(place, io, (stores, models) => keys.run(args, io, stores, models));
    case "groups":
      return withStores(place, io, (stores) => groups.run(args, io, stores));
    case "store": {
      const { store: written } = await loadConfig(place.file, await words(place.folder), io.env, place.folder);
      return store.run(args, io, {
        open: () => openMaintenance(written.ledger),
        restore: (from, terms) => restoreStore(written.ledger, from, terms),
      });
    }
    case "usage":
      endWithReader();
      return withStores(place, io, (stores) => usage.run(args, io, stores));
    case "reconcile":
      endWithReader();
      return withStores(place, io, (stores) => reconcile.run(args, io, stores));
    default:
      io.err(`unknown verb "${verb}"\n\n${HELP}`);
      return 2;
  }
}

try {
  process.exitCode = await main(process.argv.slice(2).filter((arg) => arg !== "--"));
} catch (thrown) {
  const misused = thrown instanceof Misuse;
  process.stderr.write(misused ? `${thrown.message}\n\n${HELP}\n` : `${reason(thrown)}\n`);
  process.exitCode = misused ? 2 : 1;
}
