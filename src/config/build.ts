import type { Vocabulary } from "./plugins.ts";
import { type File, SERVED_PATHS } from "./schema.ts";
import type {
  Allowance,
  ConfiguredKey,
  ConfiguredModel,
  ConfiguredPath,
  ConfiguredProvider,
  ConfiguredTarget,
} from "./types.ts";
import type { ConfigValues } from "./values.ts";

/** Date of models that do not tell theirs, in Unix seconds: a fixed one, so that lists of models do not change by themselves. */
const CREATED = Date.UTC(2026, 0, 1) / 1000;

/** An object without its undefined members, which exact optional types refuse. */
function given<T extends object>(members: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]: Exclude<T[K], undefined>;
  };
}

/** Providers of a file that was found right. */
export function providers(file: File, values: ConfigValues, protocols: readonly string[]): ConfiguredProvider[] {
  return Object.entries(file.providers).map(([name, entry]) => {
    const { url, credential, off } = values.providers.get(name) ?? {};
    const all = url === "demo:" ? protocols : [];
    const provider = {
      name,
      url: url as URL | "demo:",
      speaks: entry.speaks ?? (entry.protocol === undefined ? all : [entry.protocol]),
      forward: entry.forward.map((header) => header.toLowerCase()),
      timeouts: { ...file.timeouts, ...given(entry.timeouts ?? {}) },
    };
    return { ...provider, ...given({ credential, header: entry.header?.toLowerCase(), off }) } as ConfiguredProvider;
  });
}

/** Models of a file that was found right. */
export function models(file: File): ConfiguredModel[] {
  return Object.entries(file.models).map(([id, entry]) => {
    const { name = id, created, aliases, can, price, fallback, description, context, output } = entry;
    const seconds = created === undefined ? CREATED : Math.floor(created / 1000);
    const targets = entry.targets.map((written) => target(written, entry));
    const model = { id, name, aliases, created: seconds, can, price: given(price), targets, fallback };
    return { ...model, ...given({ description, context, output }) } as ConfiguredModel;
  });
}

/** Splits at the first colon: vendors' names may hold others. What a target does not say its model says. */
function target(written: ConfigEntry["targets"][number], model: ConfigEntry): ConfiguredTarget {
  const own = typeof written === "string" ? { to: written, weight: 1 } : written;
  const { to, weight, via = model.via, facts } = { via: undefined, facts: undefined, ...own };
  const colon = to.indexOf(":");
  const known = given({ output: model.output, ...model.facts, ...facts });
  return {
    provider: to.slice(0, colon),
    model: to.slice(colon + 1),
    weight,
    ...given({ via, facts: Object.keys(known).length > 0 ? known : undefined }),
  };
}

type ConfigEntry = File["models"][string];

/** The paths of the file, or those that every protocol brings and the lists of models. */
export function paths(file: File, protocols: Vocabulary["protocols"]): ConfiguredPath[] {
  if (file.paths)
    return Object.entries(file.paths).map(([path, { protocol, serve, pass: provider, use, strict, open, mint }]) => {
      const pass = provider === undefined ? undefined : { provider, open, mint };
      const usual = serve === undefined ? (pass === undefined ? "llm" : "pass") : "read";
      const chain = Array.isArray(use) ? path : (use ?? usual);
      return { path, use: chain, strict, ...given({ protocol, serve, pass }) } as ConfiguredPath;
    });
  const spoken = [...protocols].flatMap(([protocol, { paths }]) =>
    paths.map((path) => ({ path, protocol, use: "llm", strict: false })),
  );
  return [...spoken, ...SERVED_PATHS.map((path) => ({ path, serve: "models", use: "read", strict: false }))];
}

/** Keys of a file that was found right; those that are off stay in the list, without a hash. */
export function keys(file: File, values: ConfigValues): ConfiguredKey[] {
  return Object.entries(file.keys).map(([name, { models, budget, expires }]) => {
    const { hash, off } = values.keys.get(name) ?? {};
    return { name, ...given({ hash, models, budget, expires, off }) } as ConfiguredKey;
  });
}

/** What a caller may use unless its key says otherwise. */
export function limits(file: File): { default?: Allowance } {
  return file.limits.default ? { default: given(file.limits.default) as Allowance } : {};
}
