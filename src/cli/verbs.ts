// The verbs and what each is given. A verb is loaded when it runs: most need no gateway, and help and --version nothing at all.
import { existsSync, readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import type { StorePart } from "../config/store-part.ts";
import type { Config } from "../config/types.ts";
import type { Stores } from "../store/open.ts";
import { Misuse } from "../text/reason.ts";
import type { ConnectPlace } from "./connect.ts";
import { COMMAND, type Terminal, type VerbPlace, type VerbText } from "./verb.ts";

/** A verb: the texts of its help, and its implementation, which `act` loads. */
interface Verb extends VerbText {
  /** Returns the exit code: 0 done, 1 could not be done or found something wrong, 2 not understood. @throws Misuse */
  act(args: string[], io: Terminal, place: VerbPlace): Promise<number>;
  /** Whether its process exits then: a plugin may leave a timer or a connection open. */
  readonly ends?: boolean;
}

/** In the order of the help. Loading a verb loads its texts only, so that help costs little. */
export const VERBS: Readonly<Record<string, () => Promise<Verb>>> = {
  run: async () => ({
    ...(await import("./help/run.ts")),
    ends: true,
    async act(args, io, place) {
      const [{ run }, { firstRun }] = await Promise.all([import("./run.ts"), import("./first-run.ts")]);
      return run(args, io, await firstRun(place, io));
    },
  }),
  init: async () => ({
    ...(await import("./help/init.ts")),
    act: async (args, io) => (await import("./init.ts")).run(args, io),
  }),
  check: async () => ({ ...(await import("./help/check.ts")), ends: true, act: checked }),
  audit: async () => ({
    ...(await import("./help/audit.ts")),
    async act(args, io, place) {
      const { run } = await import("./audit.ts");
      return run(args, io, await configOf(place, io), readFileSync(place.file, "utf8"));
    },
  }),
  doctor: async () => ({
    ...(await import("./help/doctor.ts")),
    async act(args, io, place) {
      const { run } = await import("./doctor.ts");
      const { config, vocabulary } = await loaded(place, io);
      return run(args, io, config, vocabulary.protocolList);
    },
  }),
  alerts: async () => ({
    ...(await import("./help/alerts.ts")),
    act: async (args, io, place) => (await import("./alerts.ts")).run(args, io, (await configOf(place, io)).alerts),
  }),
  routes: async () => ({
    ...(await import("./help/routes.ts")),
    act: async (args, io, place) => (await import("./routes.ts")).run(args, io, await configOf(place, io)),
  }),
  explain: async () => ({
    ...(await import("./help/explain.ts")),
    ends: true,
    act: async (args, io, place) => (await import("./explain.ts")).run(args, io, await loaded(place, io)),
  }),
  connect: async () => ({
    ...(await import("./help/connect.ts")),
    async act(args, io, place) {
      const { run } = await import("./connect.ts");
      return run(args, io, async () => placeOfClients(await configOf(place, io)));
    },
  }),
  models: async () => ({
    ...(await import("./help/models.ts")),
    act: async (args, io, place) => (await import("./models.ts")).run(args, io, await configOf(place, io)),
  }),
  keys: async () => ({ ...(await import("./help/keys.ts")), act: keysManaged }),
  groups: async () => ({
    ...(await import("./help/groups.ts")),
    async act(args, io, place) {
      const { run } = await import("./groups.ts");
      return withStores(place, io, (stores, config, zone) =>
        run(args, io, stores, zone, () => configIfRight(config)?.limits.groups),
      );
    },
  }),
  usage: async () => ({
    ...(await import("./help/usage.ts")),
    async act(args, io, place) {
      const { run } = await import("./usage.ts");
      return withStores(place, io, (stores, _, zone) => run(args, io, stores, zone));
    },
  }),
  tail: async () => ({
    ...(await import("./help/tail.ts")),
    async act(args, io, place) {
      const { run } = await import("./tail.ts");
      return withStores(place, io, (stores, _, zone) => run(args, io, stores, zone));
    },
  }),
  reload: async () => ({
    ...(await import("./help/reload.ts")),
    act: async (args, io, place) => (await import("./reload.ts")).run(args, io, await adminFor(place, io)),
  }),
  diff: async () => ({
    ...(await import("./help/diff.ts")),
    act: async (args, io, place) => (await import("./diff.ts")).run(args, io, await adminFor(place, io)),
  }),
  top: async () => ({
    ...(await import("./help/top.ts")),
    act: async (args, io, place) => (await import("./top.ts")).run(args, io, await adminFor(place, io)),
  }),
  reconcile: async () => ({
    ...(await import("./help/reconcile.ts")),
    async act(args, io, place) {
      const { run } = await import("./reconcile.ts");
      return withStores(place, io, (stores, config) => {
        const providers = configIfRight(config)?.providers.map(({ name }) => name);
        return run(args, io, stores, providers);
      });
    },
  }),
  store: async () => ({ ...(await import("./help/store.ts")), act: storeTended }),
  plugin: async () => ({
    ...(await import("./help/plugin.ts")),
    async act(args, io, place) {
      const [{ run }, { pluginNames }] = await Promise.all([import("./plugin.ts"), import("../loader/discover.ts")]);
      return run(args, io, pluginNames(place.folder));
    },
  }),
  schema: async () => ({
    ...(await import("./help/schema.ts")),
    act: async (args, io, place) => (await import("./schema.ts")).run(args, io, await words(place.folder)),
  }),
};

/** Lists, creates and changes keys. */
async function keysManaged(args: string[], io: Terminal, place: VerbPlace): Promise<number> {
  const [keys, { unkeptLimits }] = await Promise.all([import("./keys.ts"), import("../marketplace/budgets.ts")]);
  return withStores(
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
  );
}

/** Copies, checks, prunes and upgrades the store. */
async function storeTended(args: string[], io: Terminal, place: VerbPlace): Promise<number> {
  const [store, open, { missingSecret }] = await Promise.all([
    import("./store.ts"),
    import("../store/open.ts"),
    import("../store/secret.ts"),
  ]);
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
}

/** Returns the address and token of the admin side. */
const adminFor = async (place: VerbPlace, io: Terminal) => (await import("./admin-client.ts")).adminIn(place, io.env);

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
  const [
    check,
    { rehearse },
    { storeDoubts, leftBehindDoubts, countedTwice },
    { signInDoubts },
    { addressDoubts },
    { priceDoubts },
  ] = await Promise.all([
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
    ...(await leftBehindDoubts(config)),
    ...(await countedTwice(config)),
    ...(await signInDoubts(config)),
    ...addressDoubts(config, vocabulary.protocolList),
    ...(await priceDoubts(config)),
  ];
  return check.run(all, io, vocabulary, (config) => rehearse(config, vocabulary), doubts);
}
