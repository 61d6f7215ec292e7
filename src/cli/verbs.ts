// The verbs and what each is given. A verb is loaded when it runs: most need no gateway, and help and --version nothing at all.
import { existsSync, readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import type { StorePart } from "../config/store-part.ts";
import type { Config } from "../config/types.ts";
import type { KeyRecord } from "../store/keys.ts";
import type { Stores } from "../store/open.ts";
import { UsageError } from "../text/format-error.ts";
import type { ConnectSettings } from "./connect.ts";
import { COMMAND, type ConfigLocation, type Terminal, type VerbHelp } from "./verb.ts";

/** A verb: the texts of its help, and its implementation, which `run` loads. */
interface Verb extends VerbHelp {
  /** Returns the exit code: 0 done, 1 could not be done or found something wrong, 2 not understood. @throws UsageError */
  run(args: string[], io: Terminal, location: ConfigLocation): Promise<number>;
  /** Whether its process exits then: a plugin may leave a timer or a connection open. */
  readonly exits?: boolean;
}

/** In the order of the help. Loading a verb loads its texts only, so that help costs little. */
export const VERBS: Readonly<Record<string, () => Promise<Verb>>> = {
  run: async () => ({
    ...(await import("./help/run.ts")),
    exits: true,
    async run(args, io, location) {
      const [{ runGateway }, { firstRun }] = await Promise.all([import("./run.ts"), import("./first-run.ts")]);
      return runGateway(args, io, await firstRun(takeConfigFile(args, io, location), io));
    },
  }),
  init: async () => ({
    ...(await import("./help/init.ts")),
    run: async (args, io) => (await import("./init.ts")).runInit(args, io),
  }),
  check: async () => ({ ...(await import("./help/check.ts")), exits: true, run: runCheck }),
  audit: async () => ({
    ...(await import("./help/audit.ts")),
    async run(args, io, location) {
      const { runAudit } = await import("./audit.ts");
      const config = await loadVerbConfig(location, io);
      return runAudit(args, io, config, readFileSync(location.file, "utf8"), () => readableKeys(config));
    },
  }),
  doctor: async () => ({
    ...(await import("./help/doctor.ts")),
    async run(args, io, location) {
      const { runDoctor } = await import("./doctor.ts");
      const { config, extensions } = await loadGateway(location, io);
      return runDoctor(args, io, config, extensions.protocolList);
    },
  }),
  alerts: async () => ({
    ...(await import("./help/alerts.ts")),
    run: async (args, io, location) =>
      (await import("./alerts.ts")).runAlerts(args, io, (await loadVerbConfig(location, io)).alerts),
  }),
  routes: async () => ({
    ...(await import("./help/routes.ts")),
    run: async (args, io, location) =>
      (await import("./routes.ts")).runRoutes(args, io, await loadVerbConfig(location, io)),
  }),
  explain: async () => ({
    ...(await import("./help/explain.ts")),
    exits: true,
    run: async (args, io, location) =>
      (await import("./explain.ts")).runExplain(args, io, await loadGateway(location, io)),
  }),
  connect: async () => ({
    ...(await import("./help/connect.ts")),
    async run(args, io, location) {
      const { runConnect } = await import("./connect.ts");
      return runConnect(args, io, async () => connectSettings(await loadVerbConfig(location, io)));
    },
  }),
  models: async () => ({
    ...(await import("./help/models.ts")),
    run: async (args, io, location) =>
      (await import("./models.ts")).runModels(args, io, await loadVerbConfig(location, io)),
  }),
  keys: async () => ({ ...(await import("./help/keys.ts")), run: runKeys }),
  groups: async () => ({
    ...(await import("./help/groups.ts")),
    async run(args, io, location) {
      const { parseGroupCommand, runGroups } = await import("./groups.ts");
      return withStores(location, io, {
        check: (zone) => parseGroupCommand(args, zone),
        act: (stores, config, zone) => runGroups(args, io, stores, zone, () => validConfig(config)?.limits.groups),
      });
    },
  }),
  usage: async () => ({
    ...(await import("./help/usage.ts")),
    async run(args, io, location) {
      const { parseUsageCommand, runUsage } = await import("./usage.ts");
      return withStores(location, io, {
        check: (zone) => parseUsageCommand(args, zone),
        act: (stores, _, zone) => runUsage(args, io, stores, zone),
      });
    },
  }),
  tail: async () => ({
    ...(await import("./help/tail.ts")),
    async run(args, io, location) {
      const { parseTailArguments, runTail } = await import("./tail.ts");
      return withStores(location, io, {
        check: (zone) => parseTailArguments(args, zone),
        act: (stores, config, zone) => runTail(args, io, stores, { zone, models: () => validConfig(config)?.models }),
      });
    },
  }),
  reload: async () => ({
    ...(await import("./help/reload.ts")),
    run: async (args, io, location) =>
      (await import("./reload.ts")).runReload(args, io, await configuredAdmin(location, io)),
  }),
  diff: async () => ({
    ...(await import("./help/diff.ts")),
    run: async (args, io, location) =>
      (await import("./diff.ts")).runDiff(args, io, await configuredAdmin(location, io)),
  }),
  top: async () => ({
    ...(await import("./help/top.ts")),
    run: async (args, io, location) => (await import("./top.ts")).runTop(args, io, await configuredAdmin(location, io)),
  }),
  reconcile: async () => ({
    ...(await import("./help/reconcile.ts")),
    async run(args, io, location) {
      const { parseReconcileArguments, runReconcile } = await import("./reconcile.ts");
      return withStores(location, io, {
        check: () => parseReconcileArguments(args),
        act: (stores, config) =>
          runReconcile(
            args,
            io,
            stores,
            validConfig(config)?.providers.map(({ name }) => name),
          ),
      });
    },
  }),
  store: async () => ({ ...(await import("./help/store.ts")), run: runStore }),
  plugin: async () => ({
    ...(await import("./help/plugin.ts")),
    async run(args, io, location) {
      const [{ runPlugin }, { pluginNames }] = await Promise.all([
        import("./plugin.ts"),
        import("../loader/discover.ts"),
      ]);
      return runPlugin(args, io, pluginNames(location.folder));
    },
  }),
  schema: async () => ({
    ...(await import("./help/schema.ts")),
    run: async (args, io, location) =>
      (await import("./schema.ts")).runSchema(args, io, await loadExtensions(location.folder)),
  }),
};

/**
 * Returns the gateway.yaml that is named by a word, as in `check FILE`, which is removed from the arguments; else that of --config.
 * @throws UsageError where both name one
 */
function takeConfigFile(args: string[], io: Terminal, location: ConfigLocation): ConfigLocation {
  const at = args.findIndex((arg) => !arg.startsWith("-"));
  if (at < 0) return location;
  const [named = ""] = args.splice(at, 1);
  if (named === "") throw new UsageError("FILE is empty; an unset variable leaves it empty.");
  if (location.named) throw new UsageError(`${named} and --config name one file each; leave one out.`);
  const file = resolve(io.folder, named);
  return { file, folder: dirname(file), named: true };
}

/** Lists, creates and changes keys. */
async function runKeys(args: string[], io: Terminal, location: ConfigLocation): Promise<number> {
  const [keys, { limitsProblem }] = await Promise.all([import("./keys.ts"), import("../marketplace/budgets.ts")]);
  return withStores(location, io, {
    check: () => keys.parseKeyCommand(args),
    act: (stores, config) =>
      keys.runKeys(args, io, stores, () => {
        const { models, limits, timezone } = config();
        return {
          models: models.map(({ id }) => id),
          ...{ limits, timezone },
          unenforceableReason: (limits, models) => limitsProblem(config(), limits, models),
        };
      }),
    makes: args.includes("create"),
  });
}

/** Copies, checks, prunes and upgrades the store. */
async function runStore(args: string[], io: Terminal, location: ConfigLocation): Promise<number> {
  const [store, open, { missingSecretWarning: missingSecret }] = await Promise.all([
    import("./store.ts"),
    import("../store/open.ts"),
    import("../store/secret.ts"),
  ]);
  const { store: written, config, zone } = await loadStorePart(location, io);
  return store.runStore(args, io, {
    async openStore(makes) {
      const none = makes ? undefined : await open.describeMissingStore(written);
      if (none !== undefined) throw new Error(none);
      return open.connectMaintenance(written);
    },
    restore: (from, terms) => open.restoreStore(written, from, terms),
    importFrom: (from, terms) => open.importStore(written, from, terms),
    zone,
    missingSecretWarning() {
      if (written.postgres || validConfig(config)?.envelopes.key !== undefined) return undefined;
      const says = missingSecret(written.ledger);
      return says && `${written.ledger}.secret: ${says}`;
    },
  });
}

/** Returns the address and token of the admin side. */
const configuredAdmin = async (location: ConfigLocation, io: Terminal) =>
  (await import("./admin-client.ts")).findAdmin(location, io.env);

const loadExtensions = async (folder: string) => (await import("../loaded-config.ts")).findExtensions(folder);

const loadGateway = async (location: ConfigLocation, io: Terminal) =>
  (await import("../loaded-config.ts")).loadWithExtensions({ ...location, env: io.env });

const loadVerbConfig = async (location: ConfigLocation, io: Terminal): Promise<Config> =>
  (await loadGateway(location, io)).config;

/** Returns the address and models for clients of the gateway. */
async function connectSettings(config: Config): Promise<ConnectSettings> {
  const { listen, models } = config;
  const { trialModels, usableModels } = await import("./first-request.ts");
  const names = [...usableModels(config), ...models].flatMap(({ id, aliases }) => [id, ...aliases]);
  return { listen, models: [...new Set(names)], choose: await trialModels(config) };
}

/** Returns gateway.yaml's content; undefined if it is invalid. */
function validConfig(config: () => Config): Config | undefined {
  try {
    return config();
  } catch {
    return undefined;
  }
}

/** Returns store and keys of gateway.yaml, even if other parts are invalid; the rest on demand. */
async function loadStorePart(
  location: ConfigLocation,
  io: Terminal,
): Promise<StorePart & { config: () => Config; zone: () => string }> {
  try {
    const config = await loadVerbConfig(location, io);
    return { store: config.store, keys: config.keys, config: () => config, zone: () => config.timezone };
  } catch (thrown) {
    const [{ ConfigError }, { readStorePart }] = await Promise.all([
      import("../config/problems.ts"),
      import("../config/store-part.ts"),
    ]);
    const part = existsSync(location.file)
      ? readStorePart(readFileSync(location.file, "utf8"), io.env, location.folder)
      : undefined;
    if (!(thrown instanceof ConfigError) || !part) throw thrown;
    const { length } = thrown.problems;
    const read = part.keysInvalid ? "store: alone; it has keys besides these" : "store: and keys:";
    io.err(
      `${location.file} has ${length === 1 ? "a mistake" : `${length} mistakes`}, see: ${COMMAND} check. This goes on with what it says of ${read}.`,
    );
    const config = () => {
      throw thrown;
    };
    return { ...part, config, zone: () => part.timezone ?? config() };
  }
}

/** A verb that works on the file's store. */
interface StoreVerb {
  /** Checks the arguments before the store is opened: a database that is away would be the error, after five seconds. */
  check(zone: () => string): unknown;
  /** Is also given functions that return the whole file and its `timezone`. */
  act(stores: Stores, config: () => Config, zone: () => string): Promise<number>;
  /** Whether a missing store is created; other verbs find an empty one. */
  readonly makes?: boolean;
}

/** Runs a verb with the file's store. */
async function withStores(
  location: ConfigLocation,
  io: Terminal,
  { check, act, makes = false }: StoreVerb,
): Promise<number> {
  const { store, keys, config, zone } = await loadStorePart(location, io);
  check(zone);
  const { connectStores, connectToRead, runWithStores } = await import("../store/open.ts");
  const stores = (makes ? connectStores : connectToRead)(store, keys, io.err);
  return runWithStores(stores, (stores) => act(stores, config, zone));
}

/** Returns the keys of file and store; undefined if the store cannot be read from here. */
async function readableKeys({ store, keys }: Config): Promise<KeyRecord[] | undefined> {
  const { connectToRead, runWithStores } = await import("../store/open.ts");
  const stores = connectToRead(store, keys, () => {});
  return runWithStores(stores, (stores) => stores.keys.list()).catch(() => undefined);
}

/** Checks the file and everything it refers to. */
async function runCheck(args: string[], io: Terminal, location: ConfigLocation): Promise<number> {
  const [
    check,
    { dryStartPlugins },
    { storeWarnings, leftBehindWarnings, doubleCountErrors },
    { signInWarnings },
    { addressWarnings, socketFileErrors },
    { priceWarnings },
    { withImportWatch },
  ] = await Promise.all([
    import("./check.ts"),
    import("../dry-start.ts"),
    import("./store-warnings.ts"),
    import("./sign-in-warnings.ts"),
    import("./address-warnings.ts"),
    import("../marketplace/price-warnings.ts"),
    import("./import-watch.ts"),
  ]);
  const { file } = takeConfigFile(args, io, location);
  const extensions = withImportWatch(await loadExtensions(dirname(file)));
  const doubts = async (config: Config) => [
    ...(await storeWarnings(config)),
    ...(await leftBehindWarnings(config)),
    ...(await doubleCountErrors(config)),
    ...(await signInWarnings(config)),
    ...addressWarnings(config, extensions.protocolList),
    ...socketFileErrors(config),
    ...(await priceWarnings(config)),
  ];
  return check
    .runCheck(args, io, file, extensions, (config) => dryStartPlugins(config, extensions, extensions.starting), doubts)
    .finally(extensions.close);
}
