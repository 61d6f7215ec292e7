import type { Limits } from "../core/limit-kinds.ts";
import type { Config, ConfiguredModel, ConfiguredPath, ConfiguredPlugin, ConfiguredProvider } from "./types.ts";
import {
  formatAddress,
  formatCount,
  formatDuration,
  formatLimit,
  formatMoney,
  formatPercent,
  formatRetention,
  formatSize,
} from "./units.ts";

/** A value as it would be written in gateway.yaml. */
export class SettingText {
  constructor(
    readonly text: string,
    /** The compared value, where the text does not show all of it. */
    readonly value = text,
  ) {}
}

type Settings = Readonly<Record<string, unknown>>;

const settingText =
  <T>(write: (value: T) => string) =>
  (value: T | undefined) =>
    value === undefined ? undefined : new SettingText(write(value));
const duration = settingText(formatDuration);
const percent = settingText(formatPercent);
const size = settingText(formatSize);
const count = settingText(formatCount);
const limit = settingText(formatLimit);
const day = settingText((time: number) => new Date(time).toISOString().replace(/T00:00:00\.000Z$|\.000(?=Z)/, ""));
const onOff = settingText((on: boolean) => (on ? "on" : "off"));
const address = settingText(formatAddress);

/** Returns the same members, with numbers formatted. */
const mapNumbers = (members: Settings, write: (value: number) => SettingText | undefined): Settings =>
  Object.fromEntries(
    Object.entries(members).map(([name, value]) => [name, typeof value === "number" ? write(value) : value]),
  );

/** Returns a configuration in the structure, words and units of the file, so that comparisons show what people wrote. */
export function toFileSettings(config: Config): Settings {
  const { admin, adminAccess, keep, models, plugins, providers, retry, limits, keys, overload, pathsOff, ...rest } =
    config;
  const { cors, body, sockets, connections, alerts } = config;
  return {
    ...rest,
    listen: address(config.listen),
    admin: adminSettings(admin, adminAccess),
    cors: cors && { origins: cors.origins, max_age: duration(cors.max_age) },
    pages: onOff(config.pages),
    trace: onOff(config.trace),
    providers: providers.map(providerSettings),
    retry: {
      ...retry,
      budget: percent(retry.budget),
      wait: duration(retry.wait),
      first_frame: duration(retry.first_frame),
    },
    health: { keep: percent(keep) },
    models: models.map(modelSettings),
    plugins: new Map([...plugins].map(([name, plugin]) => [name, pluginSettings(plugin)])),
    paths: config.paths.map(pathSettings),
    ...Object.fromEntries(pathsOff.map((path) => [`paths.${path}`, new SettingText("off")])),
    limits: {
      default: limits.default && limitSettings(limits.default),
      all: limits.all && limitSettings(limits.all),
      groups: limitSettingsByName(limits.groups),
      models: limitSettingsByName(limits.models),
      providers: limitSettingsByName(limits.providers),
    },
    keys: keys.map(({ hash, expires, ...key }) => ({
      ...key,
      key: hash,
      expires: day(expires),
      ...limitSettings(limits.keys?.get(key.name) ?? {}),
    })),
    store: storeSettings(config.store),
    alerts: alerts && { ...alerts, repeat: duration(alerts.repeat) },
    connections: {
      ...mapNumbers(connections, duration),
      ...{ per_address: count(connections.per_address), headers: count(connections.headers) },
      ...{ head_size: size(connections.head_size), target: size(connections.target) },
    },
    body: {
      ...{ ...mapNumbers(body, size), idle: duration(body.idle), patience: duration(body.patience) },
      ...{ depth: count(body.depth), names: count(body.names), ratio: count(body.ratio) },
    },
    answers: mapNumbers(config.answers, size),
    sockets: { idle: duration(sockets.idle), message: size(sockets.message) },
    overload: {
      ...{ concurrency: limit(overload.concurrency), per_key: limit(overload.per_key), queue: count(overload.queue) },
      ...{ wait: duration(overload.wait), delay: duration(overload.delay), heap: percent(overload.heap) },
    },
    drain: duration(config.drain),
    linger: duration(config.linger),
    crash_drain: duration(config.crash_drain),
    warm_up: duration(config.warm_up),
  };
}

function adminSettings(admin: Config["admin"], { session, ...access }: Config["adminAccess"]): Settings {
  const listen = admin && ("path" in admin ? new SettingText(`unix:${admin.path}`) : address(admin));
  return { ...access, listen: listen ?? new SettingText("off"), session: duration(session) };
}

function storeSettings(store: Config["store"]): Settings {
  const { postgres: { journal, ...database } = {}, ...places } = store;
  return {
    ...places,
    ledger: new SettingText(places.ledger, JSON.stringify([places.ledger, database])),
    journal,
    keep: new SettingText(formatRetention(places.keep)),
  };
}

const providerSettings = ({ timeouts, health, warm, concurrency, ...provider }: ConfiguredProvider): Settings => ({
  ...provider,
  concurrency: limit(concurrency),
  timeouts: mapNumbers({ ...timeouts }, duration),
  health: {
    ...mapNumbers({ ...health }, duration),
    ...{ failures: health.failures, errors: percent(health.errors), requests: health.requests },
  },
  warm: duration(warm),
});

/** Moves settings shared by all targets to the model. */
function modelSettings({ targets, created, context, output, name, ...model }: ConfiguredModel): Settings {
  const own = targets.map(({ provider, model, facts, ...target }) => {
    const { output: _, ...known } = facts ?? {};
    return { ...target, to: `${provider}:${model}`, facts: known } as Settings;
  });
  const shared = ["price", "via", "facts"].filter((name) =>
    own.every((target) => JSON.stringify(target[name]) === JSON.stringify(own[0]?.[name])),
  );
  const without = (target: Settings) =>
    Object.fromEntries(Object.entries(target).filter(([name]) => !shared.includes(name)));
  return {
    ...model,
    name: name === model.id ? undefined : name,
    ...Object.fromEntries(shared.map((name) => [name, own[0]?.[name]])),
    created: day(created * 1000),
    context: count(context),
    output: count(output),
    targets: own.map(without),
  };
}

const pluginSettings = ({ options, deadline, from }: ConfiguredPlugin): Settings => ({
  ...(options as Settings | undefined),
  from: from === undefined ? undefined : new SettingText(from),
  deadline: duration(deadline),
});

const pathSettings = ({ pass, ...path }: ConfiguredPath): Settings => ({
  ...path,
  ...(pass && { pass: pass.provider, open: pass.open, mint: pass.mint }),
});

const limitSettingsByName = (entries: ReadonlyMap<string, Limits> = new Map()): ReadonlyMap<string, Settings> =>
  new Map([...entries].map(([name, limits]) => [name, limitSettings(limits)]));

function limitSettings({ rpm, tpm, concurrency, budgets }: Limits): Settings {
  const sums = budgets?.map((sum) => (sum.soft ? `${formatMoney(sum)} (soft)` : formatMoney(sum)));
  return {
    ...{ rpm: limit(rpm), tpm: limit(tpm), concurrency: limit(concurrency) },
    budget: sums && new SettingText(sums.join(", ") || "off"),
  };
}
