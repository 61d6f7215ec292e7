import type { AddressInfo } from "node:net";
import { Admin, type AdminListenAddress } from "../admin/admin.ts";
import { metricsText } from "../admin/metrics.ts";
import { openidClient } from "../admin/oidc.ts";
import { AlertWatch } from "../alerts/alert-watch.ts";
import { Alerts } from "../alerts/alerts.ts";
import { Webhook } from "../alerts/webhook.ts";
import { AuditTrail, servedFile } from "../audit-trail.ts";
import { displayPath, offNotice } from "../config/problems.ts";
import { configSecrets } from "../config/secrets.ts";
import type { Config } from "../config/types.ts";
import { formatAddress } from "../config/units.ts";
import { ConsolePages } from "../console/console-pages.ts";
import { PageFiles } from "../console/page-files.ts";
import { readClockDirectly } from "../core/clock.ts";
import { JsonLog, type Log } from "../core/log.ts";
import { Redactor } from "../core/redactor.ts";
import { GATEWAY_VERSION } from "../core/version.ts";
import { stopAfterCrash } from "../crash.ts";
import { inheritedSocket, tryAddress } from "../downstream/listener.ts";
import { Gateway } from "../gateway.ts";
import { type LoadedConfig, loadWithExtensions } from "../loaded-config.ts";
import { triedFiles } from "../loader/versions.ts";
import { priceWarnings } from "../marketplace/price-warnings.ts";
import { configSources, FileWatch } from "../reloads.ts";
import { connectStores, runWithStores } from "../store/open.ts";
import { loadOrCreateSecret } from "../store/secret.ts";
import { printError } from "../text/format-error.ts";
import { WarmUp } from "../warm-up.ts";
import { shareLessMemory } from "../wire/own-memory.ts";
import { Primary } from "../workers/primary.ts";
import { cliAuthor, watchAuthor } from "./author.ts";
import { installedClientLines, KEY_VARIABLE, localUrl } from "./connect.ts";
import { createFirstKey } from "./first-key.ts";
import { curlLines, trialModels, usableModels } from "./first-request.ts";
import { maxOpenFiles, openFilesWarning } from "./open-files.ts";
import { deferSignals, ignoreDebugSignal, RELOAD_SIGNALS, STOP_SIGNALS, untilStopped } from "./signals.ts";
import { BUNDLED_CONFIG, COMMAND, parseVerbArguments, type Terminal } from "./verb.ts";

/**
 * Starts the gateway, prints the first steps, and serves until a signal. The caller must then exit the process, which would
 * otherwise wait for a stalled reader of its output. Exit codes: 0 stopped, 1 could not start, failed while it ran or lost rows
 * as it stopped.
 * @throws UsageError
 */
export async function runGateway(
  args: readonly string[],
  io: Terminal,
  place: { file: string; folder: string },
): Promise<number> {
  const off = { type: "boolean", default: false } as const;
  const { values: options } = parseVerbArguments(args, { watch: off, json: off });
  shareLessMemory();
  readClockDirectly();
  // A closed output pipe is no failure of the gateway.
  for (const stream of [process.stdout, process.stderr]) stream.on("error", () => {});
  ignoreDebugSignal();
  const log = new JsonLog();
  const deferred = [deferSignals(RELOAD_SIGNALS)];
  let lost = false;
  try {
    const loaded = await loadWithExtensions({ ...place, env: io.env });
    const { config } = loaded;
    log.level = config.log.level;
    let started: Gateway | Primary | undefined;
    watchForCrashes(() => started, loaded, log);
    if (config.adminAccess.oidc) await openidClient();
    // Requests may run from then on: they end as at any stop.
    const onListen = () => new Promise<void>((stops) => deferred.push(deferSignals(STOP_SIGNALS, stops)));
    const gateway = await startGateway(loaded, log, io.env, onListen);
    started = gateway;
    const alerts = createAlerts(gateway, log, io.env);
    const watching = new AlertWatch(gateway, alerts);
    const adminSide = new Admin(gateway, {
      ...{ log, pages: new ConsolePages(await PageFiles.shared()) },
      metrics: (wrongTokens) => metricsText(gateway, alerts, wrongTokens),
    });
    const admin = await listenAdmin(adminSide, config, log, io.env);
    const noted = recordStart(gateway, log, io.env);
    await logWarnings(config, log);
    const warn = (message: string) => log.warn({}, message);
    const greeting = { config, address: gateway.address, admin, key: await firstKey(gateway, config, warn) };
    // Before the greeting: whoever reads that may change files at once.
    if (options.watch) reloadOnChange(gateway);
    if (options.json) io.out(JSON.stringify(greetingJson(greeting)));
    else await printGreeting(greeting, io);
    const stopped = untilStopped(gateway, config.linger, log, io.out, io.env);
    for (const deliver of deferred) deliver();
    await stopped;
    watching.close();
    await noted;
    // Removes the file of its socket.
    adminSide.close();
    lost = gateway.hasLost;
  } catch (thrown) {
    printError(thrown, io, options.json);
    await log.flush();
    return 1;
  }
  await log.flush();
  return lost ? 1 : 0;
}

/** Stops the gateway after an uncaught error. There is none yet during the start, when plugins may already have timers. */
function watchForCrashes(gateway: () => Gateway | Primary | undefined, { extensions }: LoadedConfig, log: JsonLog) {
  const crashable = {
    get plugins() {
      return gateway()?.plugins ?? extensions.classes;
    },
    fail: async () => gateway()?.fail(),
  };
  stopAfterCrash(crashable, log, async () => {
    await log.flush();
    process.exit(1);
  });
}

/** Adds the start to the audit trail; requests do not wait for it. */
function recordStart({ config, stores }: Gateway | Primary, log: Log, env: NodeJS.ProcessEnv): Promise<void> {
  const trail = new AuditTrail(
    log,
    () => stores.audit,
    () => configSecrets(config, env),
  );
  return trail.recordStart(cliAuthor(), GATEWAY_VERSION, servedFile(config));
}

/** Creates the sender of alerts: one for all processes of this gateway. */
function createAlerts(gateway: Gateway | Primary, log: Log, env: NodeJS.ProcessEnv): Alerts {
  return new Alerts({
    ...{ log, webhook: new Webhook(env), claims: gateway.stores.claims },
    settings: () => gateway.config.alerts,
    redactor: () => new Redactor(configSecrets(gateway.config, env)),
  });
}

/**
 * Reloads when gateway.yaml, a secret's file or a plugin's code changes, also that of a plugin for which a reload has failed; the
 * result is logged.
 */
function reloadOnChange(gateway: Gateway | Primary): void {
  new FileWatch(
    () => [...new Set([...configSources(gateway.config, gateway.plugins), ...triedFiles()])],
    () => void gateway.reload(watchAuthor()).catch(() => {}),
  );
}

/**
 * @param onListen called before it listens; returns what settles when a signal is to stop it
 * @throws the error that prevents the start; nothing is left open then.
 */
async function startGateway(
  loaded: LoadedConfig,
  log: JsonLog,
  env: NodeJS.ProcessEnv,
  onListen: () => Promise<void>,
): Promise<Gateway | Primary> {
  const { config } = loaded;
  const address = inheritedSocket("listen", env) ?? config.listen;
  await tryAddress(address);
  const admin = adminAddress(config, env);
  // The default one may be taken.
  if (admin && !("path" in admin) && !config.admin?.isDefault) await tryAddress(admin);
  if (config.workers > 1) {
    // Created before there are several processes that would.
    if (config.envelopes.key === undefined && !config.store.postgres)
      loadOrCreateSecret(config.store.ledger, (message) => log.warn({}, message));
    return Primary.start(loaded, log, address, onListen);
  }
  const warmUp = await WarmUp.run(config.warm_up, log);
  const gateway = await Gateway.open(loaded, log);
  void onListen();
  try {
    await gateway.listen(address);
  } catch (thrown) {
    await gateway.stop({ drain: 0 });
    await warmUp?.close();
    throw thrown;
  }
  void warmUp?.continue(gateway);
  return gateway;
}

/** Where the admin side is to listen; undefined if it is off. */
function adminAddress(config: Config, env: NodeJS.ProcessEnv): AdminListenAddress | undefined {
  const { isDefault: _, ...written } = config.admin ?? {};
  return inheritedSocket("admin", env) ?? (config.admin && (written as AdminListenAddress));
}

/**
 * Returns the admin address for display; undefined if it is off.
 * @throws the system's error for an address in the file
 */
async function listenAdmin(
  admin: Admin,
  config: Config,
  log: Log,
  env: NodeJS.ProcessEnv,
): Promise<string | undefined> {
  const place = adminAddress(config, env);
  if (!place) return undefined;
  try {
    return await admin.listen(place);
  } catch (thrown) {
    if (!config.admin?.isDefault || (thrown as NodeJS.ErrnoException).code !== "EADDRINUSE") throw thrown;
    log.warn({}, "127.0.0.1:9090 is in use, so there is no /livez and no /readyz: set admin: in gateway.yaml");
    return undefined;
  }
}

/** Warns once about models in use without a price or with a guessed one, and about a low limit of open files. */
async function logWarnings({ providers, ...config }: Config, log: Log): Promise<void> {
  const files = openFilesWarning(maxOpenFiles());
  if (files !== undefined) log.warn({}, files);
  const doubts = await priceWarnings({ ...config, providers: providers.filter(({ off }) => off === undefined) });
  const messages = new Set(doubts.map(({ message }) => message));
  if (messages.size > 0) log.warn({ doubts: [...messages] }, `prices are missing: see ${COMMAND} models --prices`);
}

interface Greeting {
  config: Config;
  /** The listening address. */
  address: AddressInfo;
  admin: string | undefined;
  /** A key created for the first run. */
  key: string | undefined;
}

/** Describes the gateway.yaml that is in effect: the bundled one is used where a folder has none of its own. */
export function fileInUse(file: string, folder: string, bundled = BUNDLED_CONFIG): string {
  const shown = displayPath(file, folder);
  return file === bundled && shown !== "gateway.yaml"
    ? `${shown}   (the one that came along; write your own with: ${COMMAND} init)`
    : shown;
}

/** Returns the names of the providers that are on, and the ids of the models that one of them serves, and of the others. */
function usableParts(config: Config): { on: string[]; usable: string[]; idle: string[] } {
  const on = config.providers.filter(({ off }) => off === undefined).map(({ name }) => name);
  const usable = usableModels(config);
  const idle = config.models.filter((model) => !usable.includes(model));
  return { on, usable: usable.map(({ id }) => id), idle: idle.map(({ id }) => id) };
}

function greetingJson({ config, address, admin, key }: Greeting): object {
  const { on: providers, usable: models } = usableParts(config);
  const { notices: notes } = config;
  return { listen: listenUrl(address), admin: admin ?? null, providers, models, key: key ?? null, notes };
}

async function printGreeting({ config, address: at, admin, key }: Greeting, io: Terminal): Promise<void> {
  const { on, usable, idle } = usableParts(config);
  const off = config.providers.filter((provider) => provider.off !== undefined);
  io.out(`model-gateway listens on ${listenUrl(at)}`);
  if (admin) io.out(`  admin      ${admin}   (console, /livez, /readyz)`);
  if (config.workers > 1) io.out(`  workers    ${config.workers}   (SIGUSR2 replaces them one by one)`);
  io.out(`  file       ${fileInUse(config.file, io.folder)}`);
  io.out(`  providers  ${on.join(", ") || "none"}`);
  for (const { name, off: why } of off) io.out(`             ${name} is off: ${why}`);
  io.out(`  models     ${usable.join(", ") || "none"}`);
  if (idle.length > 0) io.out(`             off, because their providers are: ${idle.join(", ")}`);
  for (const notice of config.notices)
    if (!off.some(({ name, off = "" }) => notice === offNotice("provider", name, off)))
      io.out(`  note       ${notice}`);
  if (key) io.out(`  key        ${key}   (shown once; more with: ${COMMAND} keys create NAME)`);
  else io.out(`  key        one of yours (${COMMAND} keys list)`);
  const choose = await trialModels(config);
  const model = choose();
  if (model !== undefined) {
    const address = localUrl({ host: at.address, port: at.port });
    io.out("\nTry it:\n");
    for (const line of curlLines(address, key ?? KEY_VARIABLE, model)) io.out(line);
    if (key !== undefined) for (const line of installedClientLines({ address, key }, choose, io)) io.out(line);
    io.out("");
  }
}

/** Creates a key for the first run; undefined if there are keys. */
async function firstKey(
  gateway: Gateway | Primary,
  config: Config,
  warn: (message: string) => void,
): Promise<string | undefined> {
  if (gateway instanceof Gateway) return createFirstKey(gateway.stores, warn, config);
  return runWithStores(
    connectStores(config.store, config.keys, () => {}),
    (stores) => createFirstKey(stores, warn, config),
  );
}

const listenUrl = ({ address: host, port }: AddressInfo): string => `http://${formatAddress({ host, port })}`;
