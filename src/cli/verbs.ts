// The verbs and their arguments. A verb is loaded on use: most need no gateway, and --version nothing at all.
import { existsSync, readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import type { StorePart } from "../config/store-part.ts";
import type { Config } from "../config/types.ts";
import type { Stores } from "../store/open.ts";
import { Misuse } from "../text/reason.ts";
import type { ConnectPlace } from "./connect.ts";
import { COMMAND, type Terminal, type VerbPlace, type VerbText } from "./verb.ts";

/** A verb: its help texts and its action. */
interface Verb extends VerbText {
  /** Returns the exit code: 0 done, 1 failed or found problems, 2 not understood. @throws Misuse */
  act(args: string[], io: Terminal, place: VerbPlace): Promise<number>;
  /** Whether the process must be exited afterwards: a plugin may leave a timer or a connection open. */
  readonly ends?: boolean;
}

/** In the order of the help. */
export const VERBS: Readonly<Record<string, () => Promise<Verb>>> = {
  async run() {
    const [run, { firstRun }] = await Promise.all([import("./run.ts"), import("./first-run.ts")]);
    return { ...run, ends: true, act: async (args, io, place) => run.run(args, io, await firstRun(place, io)) };
  },
  async init() {
    const init = await import("./init.ts");
    return { ...init, act: (args, io) => init.run(args, io) };
  },
  async check() {
    return { ...(await import("./check.ts")), ends: true, act: checked };
  },
  async audit() {
    const audit = await import("./audit.ts");
    return {
      ...audit,
      act: async (args, io, place) => audit.run(args, io, await configOf(place, io), readFileSync(place.file, "utf8")),
    };
  },
  async doctor() {
    const doctor = await import("./doctor.ts");
    return {
      ...doctor,
      async act(args, io, place) {
        const { config, vocabulary } = await loaded(place, io);
        return doctor.run(args, io, config, vocabulary.protocolList);
      },
    };
  },
  async alerts() {
    const alerts = await import("./alerts.ts");
    return { ...alerts, act: async (args, io, place) => alerts.run(args, io, (await configOf(place, io)).alerts) };
  },
  async routes() {
    const routes = await import("./routes.ts");
    return { ...routes, act: async (args, io, place) => routes.run(args, io, await configOf(place, io)) };
  },
  async explain() {
    const explain = await import("./explain.ts");
    return {
      ...explain,
      ends: true,
      act: async (args, io, place) => explain.run(args, io, await loaded(place, io)),
    };
  },
  async connect() {
    const connect = await import("./connect.ts");
    return {
      ...connect,
      act: (args, io, place) => connect.run(args, io, async () => placeOfClients(await configOf(place, io))),
    };
  },
  async models() {
    const models = await import("./models.ts");
    return { ...models, act: async (args, io, place) => models.run(args, io, await configOf(place, io)) };
  },
  async keys() {
    const [keys, { unkeptLimits }] = await Promise.all([import("./keys.ts"), import("../marketplace/budgets.ts")]);
    return {
      ...keys,
      act: (args, io, place) =>
        withStores(
          place,
          io,
          (stores, config) =>
            keys.run(args, io, stores, () => {
              const { models, limits, timezone } = config();
              return {
                models: models.map(({ id }) => id),
                ...{ limits, timezone },
                unkept: (limits, models) => unkeptLimits(config(), limits, models),
              };
            }),
          args.includes("create"),
        ),
    };
  },
  async groups() {
    const groups = await import("./groups.ts");
    return {
      ...groups,
      act: (args, io, place) =>
        withStores(place, io, (stores, config, zone) =>
          groups.run(args, io, stores, zone, () => configIfRight(config)?.limits.groups),
        ),
    };
  },
  async usage() {
    const usage = await import("./usage.ts");
    return {
      ...usage,
      act: (args, io, place) => withStores(place, io, (stores, _, zone) => usage.run(args, io, stores, zone)),
    };
  },
  async tail() {
    const tail = await import("./tail.ts");
    return {
      ...tail,
      act: (args, io, place) => withStores(place, io, (stores, _, zone) => tail.run(args, io, stores, zone)),
    };
  },
  async reload() {
    const [reload, { adminIn }] = await Promise.all([import("./reload.ts"), import("./admin-client.ts")]);
    return { ...reload, act: (args, io, place) => reload.run(args, io, adminIn(place, io.env)) };
  },
  async diff() {
    const [diff, { adminIn }] = await Promise.all([import("./diff.ts"), import("./admin-client.ts")]);
    return { ...diff, act: (args, io, place) => diff.run(args, io, adminIn(place, io.env)) };
  },
  async top() {
    const [top, { adminIn }] = await Promise.all([import("./top.ts"), import("./admin-client.ts")]);
    return { ...top, act: (args, io, place) => top.run(args, io, adminIn(place, io.env)) };
  },
  async reconcile() {
    const reconcile = await import("./reconcile.ts");
    return {
      ...reconcile,
      act: (args, io, place) =>
        withStores(place, io, (stores, config) => {
          const { providers } = configIfRight(config) ?? {};
          return reconcile.run(
            args,
            io,
            stores,
            providers?.map(({ name }) => name),
          );
        }),
    };
  },
  async store() {
    const [store, open, { missingSecret }] = await Promise.all([
      import("./store.ts"),
      import("../store/open.ts"),
      import("../store/secret.ts"),
    ]);
    return {
      ...store,
      async act(args, io, place) {
        const { store: written, config, zone } = await storeOf(place, io);
        return store.run(args, io, {
          async open(makes) {
            const none = makes ? undefined : await open.missingStore(written);
            if (none !== undefined) throw new Error(none);
            return open.connectMaintenance(written);
          },
          restore: (from, terms) => open.restoreStore(written, from, terms),
          zone,
          withoutSecret() {
            if (written.postgres || configIfRight(config)?.envelopes.key !== undefined) return undefined;
            const says = missingSecret(written.ledger);
            return says && `${written.ledger}.secret: ${says}`;
          },
        });
      },
    };
  },
  async plugin() {
    const plugin = await import("./plugin.ts");
    return {
      ...plugin,
      act: async (args, io, place) =>
        plugin.run(args, io, (await import("../loader/discover.ts")).pluginNames(place.folder)),
    };
  },
  async schema() {
    const schema = await import("./schema.ts");
    return { ...schema, act: async (args, io, place) => schema.run(args, io, await words(place.folder)) };
  },
};

const words = async (folder: string) => (await import("../vocabulary.ts")).words(folder);

const loaded = async (place: VerbPlace, io: Terminal) =>
  (await import("../vocabulary.ts")).load({ ...place, env: io.env });

const configOf = async (place: VerbPlace, io: Terminal): Promise<Config> => (await loaded(place, io)).config;

/** Returns the address and models for clients of the gateway. */
function placeOfClients({ listen, models, providers }: Config): ConnectPlace {
  const on = new Set(providers.flatMap(({ name, off }) => (off === undefined ? [name] : [])));
  const usable = models.filter(({ targets }) => targets.some(({ provider }) => on.has(provider)));
  const names = [...usable, ...models].flatMap(({ id, aliases }) => [id, ...aliases]);
  return { listen, models: [...new Set(names)] };
}

/** Returns gateway.yaml's content; undefined if it is invalid. */
function configIfRight(config: () => Config): Config | undefined {
  try {
    return config();
  } catch {
    return undefined;
  }
}

/** Returns store and keys of gateway.yaml, even if other parts are invalid; the rest on demand. */
async function storeOf(
  place: VerbPlace,
  io: Terminal,
): Promise<StorePart & { config: () => Config; zone: () => string }> {
  try {
    const config = await configOf(place, io);
    return { store: config.store, keys: config.keys, config: () => config, zone: () => config.timezone };
  } catch (thrown) {
    const [{ ConfigError }, { storePart }] = await Promise.all([
      import("../config/problems.ts"),
      import("../config/store-part.ts"),
    ]);
    const part = existsSync(place.file) ? storePart(readFileSync(place.file, "utf8"), io.env, place.folder) : undefined;
    if (!(thrown instanceof ConfigError) || !part) throw thrown;
    const { length } = thrown.problems;
    const read = part.withoutKeys ? "store: alone; it has keys besides these" : "store: and keys:";
    io.err(
      `${place.file} has ${length === 1 ? "a mistake" : `${length} mistakes`}, see: ${COMMAND} check. This goes on with what it says of ${read}.`,
    );
    const config = () => {
      throw thrown;
    };
    return { ...part, config, zone: () => part.timezone ?? config() };
  }
}

/**
 * Opens the file's store for a verb.
 * @param act also gets functions that return the whole file and its `timezone`
 * @param makes whether the verb writes, so that a missing store is created; other verbs find an empty one
 */
async function withStores(
  place: VerbPlace,
  io: Terminal,
  act: (stores: Stores, config: () => Config, zone: () => string) => Promise<number>,
  makes = false,
): Promise<number> {
  const { store, keys, config, zone } = await storeOf(place, io);
  const { connectStores, connectToRead } = await import("../store/open.ts");
  const stores = await (makes ? connectStores : connectToRead)(store, keys, io.err);
  try {
    return await act(stores, config, zone);
  } finally {
    await stores.close();
  }
}

/** Checks the file and everything it refers to. */
async function checked(args: string[], io: Terminal, place: VerbPlace): Promise<number> {
  const [check, { rehearse }, { storeDoubts, countedTwice }, { signInDoubts }, { addressDoubts }, { priceDoubts }] =
    await Promise.all([
      import("./check.ts"),
      import("../rehearsal.ts"),
      import("./store-doubts.ts"),
      import("./sign-in-doubts.ts"),
      import("./address-doubts.ts"),
      import("../marketplace/price-doubts.ts"),
    ]);
  const named = args.find((arg) => !arg.startsWith("-"));
  if (named !== undefined && place.named) throw new Misuse(`${named} and --config name one file each; leave one out.`);
  const file = named === undefined ? place.file : resolve(io.folder, named);
  const vocabulary = await words(dirname(file));
  const all = named === undefined ? [...args, file] : args;
  const doubts = async (config: Config) => [
    ...(await storeDoubts(config)),
    ...(await countedTwice(config)),
    ...(await signInDoubts(config)),
    ...addressDoubts(config, vocabulary.protocolList),
    ...(await priceDoubts(config)),
  ];
  return check.run(all, io, vocabulary, (config) => rehearse(config, vocabulary), doubts);
}
