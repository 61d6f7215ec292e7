import type { Limits } from "../core/limit-kinds.ts";
import type { LimitTable } from "../core/limits.ts";
import type { Price } from "../core/price.ts";
import { dropUndefined, omit } from "../wire/values.ts";
import { healthLimits } from "./health.ts";
import type { Extensions } from "./plugins.ts";
import { AdminSchema } from "./schema/admin.ts";
import { type GatewayFile, PATH_KINDS, SERVED_PATHS } from "./schema.ts";
import type { ConfiguredKey, ConfiguredModel, ConfiguredPath, ConfiguredProvider, ConfiguredTarget } from "./types.ts";
import type { ConfigValues } from "./values.ts";

/** The date of models without one, in Unix seconds: fixed, so that lists of models do not change over time. */
const DEFAULT_CREATED = Date.UTC(2026, 0, 1) / 1000;

/** Returns the admin access settings that are not secret. */
export function adminAccess(admin: GatewayFile["admin"]): { hosts: string[]; session: number } {
  const { hosts, session } = typeof admin === "string" ? AdminSchema.parse({}) : admin;
  return { hosts, session };
}

/** Returns the providers of a valid file. */
export function configuredProviders(
  file: GatewayFile,
  values: ConfigValues,
  protocols: readonly string[],
): ConfiguredProvider[] {
  return Object.entries(file.providers).map(([name, entry]) => {
    const { url, credentials = [], off } = values.providers.get(name) ?? {};
    const { keep: _, ...health } = file.health;
    const all = url === "demo:" ? protocols : [];
    return {
      name,
      url: url as URL | "demo:",
      speaks: entry.speaks ?? (entry.protocol === undefined ? all : [entry.protocol]),
      websocket: entry.websocket,
      concurrency: entry.concurrency,
      forward: entry.forward.map((header) => header.toLowerCase()),
      shared: entry.shared,
      credentials,
      timeouts: { ...file.timeouts, ...dropUndefined(entry.timeouts ?? {}) },
      health: healthLimits({ ...health, ...dropUndefined(entry.health ?? {}) }),
      warm: entry.warm,
      ...dropUndefined({
        header: entry.header?.toLowerCase(),
        idempotency: entry.idempotency?.toLowerCase(),
        vendor: url === "demo:" ? "demo" : entry.vendor,
        threads: entry.threads,
        off,
      }),
    };
  });
}

/**
 * Returns the models of a valid file.
 * @param placeOf returns the position of a model in the file
 */
export function configuredModels(
  file: GatewayFile,
  placeOf: (id: string) => ConfiguredModel["place"],
): ConfiguredModel[] {
  return Object.entries(file.models).map(([id, entry]) => {
    const { name = id, created, aliases, can, balance, fallback, description, context, output } = entry;
    const hidden = entry.public ? {} : { public: false };
    const seconds = created === undefined ? DEFAULT_CREATED : Math.floor(created / 1000);
    const targets = entry.targets.map((written) => toTarget(written, entry));
    return {
      ...{ id, place: placeOf(id), name, aliases, created: seconds, balance, targets, fallback },
      ...dropUndefined({ can, description, context, output }),
      ...hidden,
    };
  });
}

/** Splits at the first colon, as vendors' names may contain others. Missing fields are inherited from the model. */
function toTarget(written: ModelEntry["targets"][number], model: ModelEntry): ConfiguredTarget {
  const own = typeof written === "string" ? { to: written, weight: 1 } : written;
  const { to, weight, price, via = model.via, facts } = { price: undefined, via: undefined, facts: undefined, ...own };
  const colon = to.indexOf(":");
  const known = dropUndefined({ output: model.output, ...model.facts, ...facts });
  return {
    provider: to.slice(0, colon),
    model: to.slice(colon + 1),
    weight,
    ...dropUndefined({
      price: toPrice(price ?? model.price),
      via,
      facts: Object.keys(known).length > 0 ? known : undefined,
    }),
  };
}

const toPrice = (price: ModelEntry["price"]): Price | undefined =>
  price && Object.keys(price).length > 0 ? (dropUndefined(price) as Price) : undefined;

type ModelEntry = GatewayFile["models"][string];

/** A path that is served by default. */
type DefaultPath = { path: string; protocol?: string; serve?: string };
type PathEntry = GatewayFile["paths"][string];

/** Returns the default paths, with the file's changes to them, and the file's own paths. */
export function configuredPaths(file: GatewayFile, protocols: Extensions["protocols"]): ConfiguredPath[] {
  const usual = defaultPaths(protocols);
  const own = Object.entries(file.paths).filter(([path]) => !usual.some((each) => each.path === path));
  return [
    ...usual.flatMap((each) => toPaths(each, effectiveEntry(each, usual, file.paths))),
    ...own.flatMap(([path, entry]) => toPaths({ path }, [path, entry])),
  ];
}

/** Returns the default paths that the file removes. */
export function removedPaths(file: GatewayFile, protocols: Extensions["protocols"]): string[] {
  const usual = defaultPaths(protocols);
  return usual.filter((each) => effectiveEntry(each, usual, file.paths)?.[1] === "off").map(({ path }) => path);
}

const defaultPaths = (protocols: Extensions["protocols"]): DefaultPath[] => [
  ...[...protocols].flatMap(([protocol, { paths }]) => paths.map((path) => ({ path, protocol }))),
  ...Object.entries(SERVED_PATHS).map(([path, serve]) => ({ path, serve })),
];

/**
 * Returns the entry for a default path, or for its parent of the same protocol: /v1/messages/count_tokens goes with /v1/messages.
 */
function effectiveEntry(
  { path, protocol }: DefaultPath,
  usual: readonly DefaultPath[],
  entries: GatewayFile["paths"],
): [path: string, entry: PathEntry] | undefined {
  const own = entries[path];
  if (own !== undefined || protocol === undefined) return own && [path, own];
  const above = usual.find(
    (each) => each.protocol === protocol && path.startsWith(`${each.path}/`) && entries[each.path],
  );
  const entry = above && entries[above.path];
  if (!above || entry === undefined) return undefined;
  const same = entry === "off" || (entry.serve ?? entry.pass ?? entry.protocol ?? protocol) === protocol;
  return same ? [above.path, entry] : undefined;
}

/** @param effective the file's entry for the path, and the path it is written under */
function toPaths(usual: DefaultPath, effective: [path: string, entry: PathEntry] | undefined): ConfiguredPath[] {
  const [from, entry] = effective ?? [usual.path, undefined];
  if (entry === "off") return [];
  const {
    protocol,
    serve,
    pass: provider,
  } = entry && PATH_KINDS.some((kind) => entry[kind]) ? entry : { ...usual, pass: undefined };
  const pass =
    provider === undefined ? undefined : { provider, open: entry?.open ?? false, mint: entry?.mint ?? false };
  const chain = serve === undefined ? (pass === undefined ? "llm" : "pass") : "read";
  // A list of plugins is a chain named by the path that has it.
  const use = Array.isArray(entry?.use) ? from : (entry?.use ?? chain);
  return [
    {
      path: usual.path,
      use,
      strict: entry?.strict ?? false,
      ...dropUndefined({ protocol, serve, pass }),
    },
  ];
}

/** Returns the keys of a valid file; disabled ones stay in the list, without a hash. */
export function configuredKeys(file: Pick<GatewayFile, "keys">, values: ConfigValues): ConfiguredKey[] {
  return Object.entries(file.keys).map(([name, entry]) => {
    const fields = omit(entry, "key", "rpm", "tpm", "concurrency", "budget");
    const { hash, off } = values.keys.get(name) ?? {};
    return { name, ...dropUndefined({ ...fields, hash, off }) };
  });
}

/** Returns the limits of every level. A key is identified by its name. */
export function limits({ limits: { default: usual, all, ...rest }, keys }: GatewayFile): LimitTable {
  const each = (entries: Readonly<Record<string, LimitsEntry>>) =>
    new Map(Object.entries(entries).map(([name, entry]) => [name, toLimits(entry)]));
  return {
    ...(usual && { default: toLimits(usual) }),
    ...(all && { all: toLimits(all) }),
    groups: each(rest.groups),
    models: each(rest.models),
    providers: each(rest.providers),
    keys: each(keys),
  };
}

type LimitsEntry = Pick<GatewayFile["keys"][string], "rpm" | "tpm" | "concurrency" | "budget">;

function toLimits({ rpm, tpm, concurrency, budget }: LimitsEntry): Limits {
  const sums = budget === undefined ? undefined : [budget].flat();
  const budgets = sums?.map((sum) => ("amount" in sum ? { ...sum.amount, soft: sum.soft } : { ...sum, soft: false }));
  return dropUndefined({ rpm, tpm, concurrency, budgets });
}
