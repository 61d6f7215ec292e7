import { existsSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { unkeptLimits } from "./budgets.ts";
import { adminIn } from "./cli/admin-client.ts";
import * as alerts from "./cli/alerts.ts";
import * as audit from "./cli/audit.ts";
import * as check from "./cli/check.ts";
import * as connect from "./cli/connect.ts";
import * as diff from "./cli/diff.ts";
import * as doctor from "./cli/doctor.ts";
import * as explain from "./cli/explain.ts";
import * as groups from "./cli/groups.ts";
import * as init from "./cli/init.ts";
import * as keys from "./cli/keys.ts";
import * as models from "./cli/models.ts";
import * as plugin from "./cli/plugin.ts";
import { reason } from "./cli/reason.ts";
import * as reconcile from "./cli/reconcile.ts";
import * as reload from "./cli/reload.ts";
import * as routes from "./cli/routes.ts";
import * as run from "./cli/run.ts";
import * as schema from "./cli/schema.ts";
import { signInDoubts } from "./cli/sign-in-doubts.ts";
import * as store from "./cli/store.ts";
import { storeDoubts } from "./cli/store-doubts.ts";
import * as tail from "./cli/tail.ts";
import * as top from "./cli/top.ts";
import * as usage from "./cli/usage.ts";
import { COMMAND, Misuse, type Terminal, type VerbPlace, type VerbText } from "./cli/verb.ts";
import { loadConfig } from "./config/load.ts";
import { nearest } from "./config/suggest.ts";
import type { Config } from "./config/types.ts";
import { load, words } from "./gateway.ts";
import { priceDoubts } from "./prices/doubts.ts";
import { rehearse } from "./rehearsal.ts";
import { connectMaintenance, connectStores, restoreStore, type Stores } from "./store/open.ts";

/** The gateway.yaml that came along. */
const BUNDLED = fileURLToPath(new URL("../gateway.yaml", import.meta.url));

/** A verb: what its help says, and what it does. */
interface Verb extends VerbText {
  /** Answers the exit code: 0 done, 1 could not be done or found something wrong, 2 not understood. @throws Misuse */
  act(args: string[], io: Terminal, place: VerbPlace): Promise<number>;
}

const configOf = async ({ file, folder }: VerbPlace, io: Terminal) =>
  loadConfig(file, await words(folder), io.env, folder);

/** Who starts the gateway by hand where there is no gateway.yaml is asked for one; anybody else gets the one that came along. */
async function firstRun(place: VerbPlace, io: Terminal): Promise<VerbPlace> {
  const ask = init.asker();
  if (place.file !== BUNDLED || !ask || dirname(BUNDLED) === io.folder) return place;
  const answer = await ask(
    "There is no gateway.yaml in this folder. Write one of the vendors' keys in the environment? [Y/n] ",
  );
  if (/^n/i.test(answer.trim())) return place;
  await init.run([], io, ask);
  return { file: join(io.folder, "gateway.yaml"), folder: io.folder };
}

const VERBS: Readonly<Record<string, Verb>> = {
  run: { ...run, act: async (args, io, place) => run.run(args, io, await firstRun(place, io)) },
  init: { ...init, act: (args, io) => init.run(args, io) },
  check: { ...check, act: checked },
  audit: {
    ...audit,
    act: async (args, io, place) => audit.run(args, io, await configOf(place, io), readFileSync(place.file, "utf8")),
  },
  doctor: {
    ...doctor,
    async act(args, io, place) {
      const { config, vocabulary } = await load({ ...place, env: io.env });
      return doctor.run(args, io, config, vocabulary.protocolList);
    },
  },
  alerts: { ...alerts, act: async (args, io, place) => alerts.run(args, io, (await configOf(place, io)).alerts) },
  routes: { ...routes, act: async (args, io, place) => routes.run(args, io, await configOf(place, io)) },
  explain: {
    ...explain,
    async act(args, io, place) {
      process.exit(await explain.run(args, io, await load({ ...place, env: io.env })));
    },
  },
  connect: {
    ...connect,
    act: (args, io, place) => connect.run(args, io, async () => placeOfClients(await configOf(place, io))),
  },
  models: { ...models, act: async (args, io, place) => models.run(args, io, await configOf(place, io)) },
  keys: {
    ...keys,
    act: (args, io, place) =>
      withStores(place, io, (stores, config) =>
        keys.run(args, io, stores, {
          models: config.models.map(({ id }) => id),
          limits: config.limits,
          unkept: (limits, models) => unkeptLimits(config, limits, models),
        }),
      ),
  },
  groups: { ...groups, act: (args, io, place) => withStores(place, io, (stores) => groups.run(args, io, stores)) },
  usage: {
    ...usage,
    act(args, io, place) {
      return withStores(place, io, (stores) => usage.run(args, io, stores));
    },
  },
  tail: { ...tail, act: (args, io, place) => withStores(place, io, ({ ledger }) => tail.run(args, io, ledger)) },
  reload: { ...reload, act: (args, io, { file, folder }) => reload.run(args, io, adminIn(file, folder)) },
  diff: { ...diff, act: (args, io, { file, folder }) => diff.run(args, io, adminIn(file, folder)) },
  top: { ...top, act: async (args, io, place) => top.run(args, io, (await configOf(place, io)).admin) },
  reconcile: {
    ...reconcile,
    act: (args, io, place) => withStores(place, io, (stores) => reconcile.run(args, io, stores)),
  },
  store: {
    ...store,
    async act(args, io, place) {
      const { store: written } = await configOf(place, io);
      return store.run(args, io, {
        open: () => connectMaintenance(written),
        restore: (from, terms) => restoreStore(written, from, terms),
      });
    },
  },
  plugin: { ...plugin, act: async (args, io, place) => plugin.run(args, io, (await words(place.folder)).plugins) },
  schema: { ...schema, act: async (args, io, place) => schema.run(args, io, await words(place.folder)) },
};

/** Where clients reach the gateway, and what they may ask for there. */
function placeOfClients({ listen, models, providers }: Config): connect.ConnectPlace {
  const on = new Set(providers.flatMap(({ name, off }) => (off === undefined ? [name] : [])));
  const usable = models.filter(({ targets }) => targets.some(({ provider }) => on.has(provider)));
  const names = [...usable, ...models].flatMap(({ id, aliases }) => [id, ...aliases]);
  return { listen, models: [...new Set(names)] };
}

const HELP = `usage: ${COMMAND} VERB …

  ${Object.values(VERBS)
    .map((verb) => verb.help)
    .join("\n  ")}
  help [VERB]                  this text; VERB --help: what one verb takes
  --version                    the version of this program

Every verb takes --config FILE; without it, gateway.yaml of this folder or the one that came along.
Exit codes: 0 done, 1 could not be done or something is wrong, 2 not understood.`;

/**
 * The file named by --config, the folder's own, or the one that came along, whose paths then start in the working folder:
 * an installed package is no place for a ledger. `--config` is taken out of the arguments.
 * @throws Misuse where it names no file: the default would be another one than was meant.
 */
function placeOf(args: string[], folder: string): VerbPlace {
  const end = args.indexOf("--");
  const at = args.findIndex((arg, i) => (end < 0 || i < end) && (arg === "--config" || arg.startsWith("--config=")));
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
  return { file: existsSync(own) ? own : BUNDLED, folder };
}

/** Keys and usage need the file's store, whatever else is wrong in it. */
async function withStores(
  { file, folder }: VerbPlace,
  io: Terminal,
  act: (stores: Stores, config: Config) => Promise<number>,
): Promise<number> {
  const config = await loadConfig(file, await words(folder), io.env, folder);
  const stores = await connectStores(config.store, config.keys, io.err);
  try {
    return await act(stores, config);
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
async function checked(args: string[], io: Terminal, place: VerbPlace): Promise<never> {
  const named = args.find((arg) => !arg.startsWith("-"));
  const file = named === undefined ? place.file : resolve(io.folder, named);
  const vocabulary = await words(dirname(file));
  const all = named === undefined ? [...args, file] : args;
  const doubts = async (config: Config) => [
    ...(await storeDoubts(config)),
    ...(await signInDoubts(config)),
    ...(await priceDoubts(config)),
  ];
  process.exit(await check.run(all, io, vocabulary, (config) => rehearse(config, vocabulary), doubts));
}

const version = (): string =>
  (JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")) as { version: string }).version;

/** The verb of that name. @throws Misuse that names the nearest one */
function verbOf(word: string): Verb {
  const verb = Object.hasOwn(VERBS, word) ? VERBS[word] : undefined;
  if (verb) return verb;
  const near = nearest(word, Object.keys(VERBS));
  const verbs = Object.keys(VERBS).join(" ");
  throw new Misuse(
    `unknown verb "${word}"${near === undefined ? "" : `, did you mean "${near}"?`}\nverbs: ${verbs}\n${COMMAND} help says what each does`,
  );
}

async function main(argv: readonly string[]): Promise<number> {
  const io: Terminal = {
    out: (line) => void process.stdout.write(`${line}\n`),
    err: (line) => void process.stderr.write(`${line}\n`),
    env: process.env,
    folder: process.cwd(),
  };
  // What stands behind -- is not ours, for verbs that start another program; npm start takes its own away.
  const args = argv[0] === "--" ? argv.slice(1) : [...argv];
  if (args[0] === "--version") {
    io.out(version());
    return 0;
  }
  const place = placeOf(args, io.folder);
  const word = args[0]?.startsWith("-") ? undefined : args.shift();
  const ours = args.includes("--") ? args.slice(0, args.indexOf("--")) : args;
  if (word === "help" || ours.includes("--help") || ours.includes("-h")) {
    const named = word === "help" ? ours.find((arg) => !arg.startsWith("-")) : word;
    io.out(named === undefined ? HELP : verbOf(named).USAGE);
    return 0;
  }
  const verb = verbOf(word ?? "run");
  if (verb !== VERBS["run"]) endWithReader();
  try {
    return await verb.act(args, io, place);
  } catch (thrown) {
    if (!(thrown instanceof Misuse)) throw thrown;
    io.err(`${thrown.message}\n\n${verb.USAGE}`);
    return 2;
  }
}

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (thrown) {
  process.stderr.write(`${thrown instanceof Misuse ? thrown.message : reason(thrown)}\n`);
  process.exitCode = thrown instanceof Misuse ? 2 : 1;
}
