import type { ZodType } from "zod";
import { thrownMessage } from "../core/errors.ts";
import type { PluginClass } from "../core/plugin.ts";
import { replaceSecrets } from "../core/replace-secrets.ts";
import { explainIssues } from "./issues.ts";
import { optionSecrets, parseOptions, resolveOptions } from "./options.ts";
import type { ConfigPath, Report } from "./problems.ts";
import { COMMON_OPTIONS } from "./secrets.ts";
import { unknownNameMessage } from "./suggest.ts";
import { atPath, entries, items, type YamlValue } from "./tree.ts";
import type { ConfiguredPlugin } from "./types.ts";
import { parseDuration } from "./units.ts";

/** The protocols and plugins that exist: only the running gateway knows them. */
export interface Extensions {
  /** Protocols by name, with the default paths of each, and whether it has stored responses below them. */
  protocols: ReadonlyMap<string, { paths: readonly string[]; storedResponses?: unknown }>;
  /**
   * Returns a plugin by its name, or by its file if `from` is given; undefined if none has that name.
   * @param folder the base of a relative `from`
   * @throws Error with the reason when `from` does not exist, or cannot be loaded
   */
  plugin(name: string, from: string | undefined, folder: string): Promise<KnownPlugin | undefined>;
  /** Names of all plugins, for suggestions. */
  plugins: readonly string[];
}

/** A plugin as far as gateway.yaml is checked against it. */
export interface KnownPlugin extends Pick<PluginClass, "after" | "before" | "twice"> {
  /** Schema of its options; undefined when it takes none. */
  options: ZodType | undefined;
  /** Probable mistakes in it. */
  warnings?: readonly string[];
  /** The phases that it implements; absent: unknown. */
  phases?: readonly string[];
  /** Whether it is part of the gateway. */
  builtIn?: boolean;
}

/** Plugins in order, and their path in the file; no path for a default chain. */
export interface ListedPlugins {
  plugins: readonly string[];
  path?: ConfigPath;
}

/** Chains by name. */
export type Chains = ReadonlyMap<string, ListedPlugins>;

interface PluginContext {
  env: NodeJS.ProcessEnv;
  folder: string;
  report: Report;
  /** Describes a position in the file. */
  place(path: ConfigPath): string;
}

/** Loads every plugin that the file names, and checks its options and its place in the chains. */
export async function checkPlugins(
  file: YamlValue,
  chains: Chains,
  served: readonly string[],
  extensions: Extensions,
  context: PluginContext,
): Promise<{ plugins: Map<string, ConfiguredPlugin>; loaded: Map<string, KnownPlugin> }> {
  const { folder, report } = context;
  const mentions = pluginMentions(file, chains, served);
  const withFile = entries(atPath(file, "plugins")).flatMap(([name, entry]) => (atPath(entry, "from") ? [name] : []));
  const known = [...new Set([...extensions.plugins, ...withFile])];
  const plugins = new Map<string, ConfiguredPlugin>();
  const loaded = new Map<string, KnownPlugin>();
  const check = async (name: string, paths: readonly ConfigPath[]) => {
    const written = atPath(file, "plugins", name, "from");
    const from = typeof written === "string" ? written : undefined;
    const path: ConfigPath = from === undefined ? (paths[0] ?? []) : ["plugins", name, "from"];
    try {
      const found = await extensions.plugin(name, from, folder);
      if (!found)
        for (const path of paths)
          report({ path, key: path[0] === "plugins", message: unknownNameMessage("plugin", name, known) });
      if (!found) return;
      loaded.set(name, found);
      const read = await checkOptions(name, atPath(file, "plugins", name), found.options, paths[0] ?? [], context);
      const deadline = parseDeadline(atPath(file, "plugins", name, "deadline"));
      const entry = paths.find((path) => path[0] === "plugins");
      const configured = entry && { place: context.place(entry) };
      plugins.set(name, { ...read, ...(from === undefined ? {} : { from }), ...deadline, ...configured });
      for (const message of pluginWarnings(name, found, paths, known))
        report({ path: paths[0] ?? [], key: entry !== undefined, message, severity: "warning" });
    } catch (thrown) {
      report({
        path,
        key: from === undefined && path[0] === "plugins",
        message: `plugin ${JSON.stringify(name)} cannot be loaded; fix ${from === undefined ? "it" : "from or the file"}, or take it out of chains: ${thrownMessage(thrown)}`,
      });
    }
  };
  await Promise.all([...mentions].map(([name, paths]) => check(name, paths)));
  for (const { plugins: chain, path = [] } of chains.values()) checkOrder(chain, path, loaded, report);
  return { plugins, loaded };
}

/** Returns warnings about a plugin. */
function pluginWarnings(
  name: string,
  { after = [], before = [], warnings = [] }: KnownPlugin,
  paths: readonly ConfigPath[],
  known: readonly string[],
): string[] {
  const plugin = `plugin ${JSON.stringify(name)}`;
  const idle = paths.every((path) => path[0] === "plugins" && path.length > 0);
  return [
    ...(idle ? [`${plugin} is in no chain, so it never runs; add it to one under chains:`] : []),
    ...Object.entries({ after, before }).flatMap(([side, others]) =>
      others
        .filter((other) => !known.includes(other))
        .map((other) => `${plugin} must be ${side} an ${unknownNameMessage("plugin", other, known)}`),
    ),
    ...warnings.map((doubt) => `${plugin}: ${doubt}`),
  ];
}

/** Returns every plugin's name with the paths that name it. */
function pluginMentions(file: YamlValue, chains: Chains, served: readonly string[]): Map<string, ConfigPath[]> {
  const mentions = new Map<string, ConfigPath[]>();
  const addMention = (name: YamlValue, path: ConfigPath) => {
    if (typeof name === "string") mentions.set(name, [...(mentions.get(name) ?? []), path]);
  };
  for (const [name] of entries(atPath(file, "plugins"))) addMention(name, ["plugins", name]);
  for (const { plugins, path } of chains.values())
    for (const [i, name] of items(plugins)) addMention(name, path ? [...path, i] : []);
  for (const [path, entry] of entries(atPath(file, "paths")))
    addMention(atPath(entry, "serve"), ["paths", path, "serve"]);
  for (const name of served) addMention(name, []);
  return mentions;
}

/** Returns milliseconds; errors are reported by the file's schema. */
function parseDeadline(written: YamlValue): { deadline?: number } {
  if (typeof written !== "string" && typeof written !== "number") return {};
  try {
    return { deadline: parseDuration(written) };
  } catch {
    return {};
  }
}

async function checkOptions(
  name: string,
  entry: YamlValue,
  schema: ZodType | undefined,
  mention: ConfigPath,
  context: { env: NodeJS.ProcessEnv; folder: string; report: Report },
): Promise<Pick<ConfiguredPlugin, "options" | "secrets">> {
  const { report } = context;
  const path = ["plugins", name];
  const given = Object.fromEntries(entries(entry).filter(([key]) => !COMMON_OPTIONS.has(key)));
  if (!schema) {
    for (const key of Object.keys(given))
      report({ path: [...path, key], key: true, message: `plugin ${JSON.stringify(name)} takes no options` });
    return { options: {} };
  }
  const { secrets, broken, ...revealed } = resolveOptions(given, path, context);
  const read = await parseOptions(schema, revealed);
  const optionTexts = optionSecrets(given, secrets);
  if (read.success) return { options: read.data, ...(optionTexts.size > 0 && { secrets: optionTexts }) };
  const reportedPaths = new Set(broken.map((place) => place.join("\0")));
  const issues = read.error.issues.filter((issue) => !reportedPaths.has(issue.path.join("\0")));
  // Messages show values as the file has them, not the values of references.
  for (const finding of explainIssues(issues, schema, given, path)) {
    const reference = revealed.references.find((place) => [...path, ...place].join("\0") === finding.path.join("\0"));
    const message = replaceSecrets(
      reference ? aboutReference(finding.message, String(atPath(given, ...reference))) : finding.message,
      secrets,
    );
    report(
      entry === undefined
        ? { path: mention, message: `plugin ${JSON.stringify(name)} needs options: ${message}` }
        : { ...finding, message },
    );
  }
  return { options: undefined };
}

/** Returns a message about the value of a reference: the text in the file is right, and needs no other spelling. */
const aboutReference = (message: string, reference: string): string =>
  `${message.replace(/; (?:write|put) .*$/, "")}; the value of ${reference} is wrong`;

/** Returns how often a name occurs in a list, and how often before an index. */
function countOccurrences(chain: readonly YamlValue[], name: YamlValue, at: number): { all: number; before: number } {
  const places = chain.flatMap((each, i) => (each === name ? i : []));
  return { all: places.length, before: places.indexOf(at) };
}

function checkOrder(
  chain: readonly string[],
  path: ConfigPath,
  loaded: ReadonlyMap<string, KnownPlugin>,
  report: Report,
): void {
  for (const [i, name] of items(chain)) {
    const { after = [], before = [], twice = false } = loaded.get(name as string) ?? {};
    const often = countOccurrences(chain, name, i);
    if (often.before >= (twice ? 2 : 1))
      report({
        path: [...path, i],
        message: `${JSON.stringify(name)} is listed ${twice ? "three times" : "twice"} in this chain`,
      });
    if (twice && often.all === 1)
      report({
        path: [...path, i],
        message: `${JSON.stringify(name)} is listed once in this chain: it observes both ends, so list it first and last`,
      });
    if (twice && often.all === 2 && i !== (often.before === 0 ? 0 : chain.length - 1)) {
      const [end, others] = often.before === 0 ? ["first", "before"] : ["last", "behind"];
      report({
        path: [...path, i],
        message: `${JSON.stringify(name)} is not ${end} in this chain: it cannot observe plugins ${others} it`,
        severity: "warning",
      });
    }
    const misplaced = (side: string, other: string) =>
      report({
        path: [...path, i],
        message: `plugin ${JSON.stringify(name)} must be ${side} ${JSON.stringify(other)} in a chain`,
      });
    for (const other of after) if (chain.indexOf(other) > i) misplaced("after", other);
    for (const other of before) if (chain.includes(other) && chain.indexOf(other) < i) misplaced("before", other);
  }
}
