import { existsSync, readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import type { DependencyContainer } from "tsyringe";
import { buildPlugin, INJECTABLE, injectedTypes } from "../container.ts";
import { thrownMessage } from "../core/errors.ts";
import type { Plugin, PluginClass } from "../core/plugin.ts";
import { Redactor } from "../core/redactor.ts";
import { replaceSecrets } from "../core/replace-secrets.ts";
import { methodsOf, misspeltMethods, PLUGIN_METHODS } from "./methods.ts";
import { PluginError, type PluginProblem } from "./problems.ts";
import { hasNewerPackage } from "./versions.ts";

/** A loaded plugin class and its file. */
export interface LoadedPlugin {
  file: string;
  Class: PluginClass;
  /** The digest of its code. */
  version?: string;
  /** The position of its entry, like `gateway.yaml:4:3`, once known and where there is one. */
  place?: string | undefined;
  /** Secret values in its options, which no message may contain, with their replacements. */
  secrets?: ReadonlyMap<string, string> | undefined;
}

/** Returns the digests of plugins' code, by the plugins' names. */
export const codeVersions = (plugins: ReadonlyMap<string, LoadedPlugin>): Map<string, string> =>
  new Map([...plugins].map(([name, { version = "" }]) => [name, version]));

/** Returns the plugins whose packages have changed since this process imported them, as a reload lists them. */
export const packagesToRestart = (plugins: ReadonlyMap<string, LoadedPlugin>): string[] =>
  [...plugins].flatMap(([name, { file }]) => (hasNewerPackage(file) ? [`plugins.${name} (package)`] : []));

/**
 * Builds one plugin with its options.
 * @throws PluginError for each parameter that cannot be injected, or with the constructor's error.
 */
export function makePlugin(container: DependencyContainer, loaded: LoadedPlugin, options: unknown): Plugin {
  const { file, Class } = loaded;
  const problems = parameterProblems(file, Class);
  if (problems.length > 0) throw new PluginError(problems);
  let plugin: Plugin;
  try {
    plugin = buildPlugin(container, Class, options);
  } catch (thrown) {
    throw new PluginError([buildProblem(loaded, thrown)], thrown);
  }
  const methods = methodsOf(plugin);
  if (methods.some((name) => PLUGIN_METHODS.includes(name))) return plugin;
  const found = misspeltMethods(methods).join(", ") || `it has ${methods.join(", ") || "no methods"}`;
  const message = `class ${classLabel(Class)} fills no phase: ${found}; phases are ${PLUGIN_METHODS.join(", ")}`;
  throw new PluginError([problemAt(file, Class, message)]);
}

/** Milliseconds that a plugin's `start` may take, and its `close`. */
const START_TIMEOUT = 10_000;

/**
 * Runs a plugin's `start`. A plugin that has started too late is closed.
 * @param dry passed to the plugin: true where it must open nothing, because nothing will be served.
 * @param timeout milliseconds
 * @throws PluginError, also when it takes too long
 */
export async function startPlugin(
  plugin: Plugin,
  loaded: LoadedPlugin,
  dry: boolean,
  timeout = START_TIMEOUT,
): Promise<void> {
  const start = async () => plugin.start?.({ dry });
  await runInTime("start() of", loaded, start, timeout, () => plugin.close?.());
}

/** Runs a plugin's `close`. @throws PluginError, also when it takes too long */
export const closePlugin = (plugin: Plugin, loaded: LoadedPlugin): Promise<void> =>
  runInTime("close() of", loaded, async () => plugin.close?.(), START_TIMEOUT);

/** @param onLate called when `run` ends after the timeout */
async function runInTime(
  what: string,
  loaded: LoadedPlugin,
  run: () => Promise<void>,
  timeout: number,
  onLate?: () => unknown,
): Promise<void> {
  const { promise: late, resolve: giveUp } = Promise.withResolvers<"late">();
  const timer = setTimeout(giveUp, timeout, "late");
  const running = run();
  try {
    if ((await Promise.race([running, late])) !== "late") return;
  } catch (thrown) {
    throw new PluginError([thrownProblem(loaded, what, thrown)], thrown);
  } finally {
    clearTimeout(timer);
  }
  running.then(onLate).catch(() => {});
  const { file, Class } = loaded;
  const message = `${what} class ${classLabel(Class)} has not ended after ${timeout / 1000} s${remedy(loaded)}`;
  throw new PluginError([problemAt(file, Class, message)]);
}

/** The metadata that TypeScript emits for a type without a class: interfaces, unions, type imports, primitive values. */
const NO_CLASS = new Set<unknown>([
  undefined,
  Object,
  String,
  Number,
  Boolean,
  Array,
  Function,
  Symbol,
  BigInt,
  Promise,
]);

/** Returns problems of constructor parameters that cannot be injected. */
function parameterProblems(file: string, Class: PluginClass): PluginProblem[] {
  const names = parameterNames(Class);
  return injectedTypes(Class).flatMap((type, i) => {
    if (!NO_CLASS.has(type)) return [];
    const name = names[i] ?? "";
    const message =
      `class ${classLabel(Class)} cannot be built: parameter ${i + 1}${name && ` (${name})`} of its constructor has a type that is no class ` +
      `when it runs. A class must be imported as one, not with \`import type\` or \`type\`; options are asked for with @inject(Options)`;
    return [problemAt(file, Class, message, name)];
  });
}

/** Explains tsyringe's error where it could not resolve a part; otherwise reports the constructor's error. */
function buildProblem(loaded: LoadedPlugin, thrown: unknown): PluginProblem {
  const { file, Class } = loaded;
  const message = thrownMessage(thrown);
  const part = /^Cannot inject the dependency "?(\w+)"? at position #(\d+)/.exec(message);
  if (message.startsWith(`TypeInfo not known for "${Class.name}"`))
    return problemAt(
      file,
      Class,
      `class ${classLabel(Class)} is not @injectable(): write that above it, imported from "tsyringe"`,
    );
  if (!part) return thrownProblem(loaded, "the constructor of", thrown);
  const [, name = "", number] = part;
  const explanation =
    `class ${classLabel(Class)} cannot be built: parameter ${Number(number) + 1} (${name}) of its constructor asks for what is not there; ` +
    `there are ${INJECTABLE.join(", ")}, and @inject(Options)`;
  return problemAt(file, Class, explanation, name);
}

/** Names the plugin's file and its configuration, as the mistake may be in either. */
function thrownProblem(loaded: LoadedPlugin, what: string, thrown: unknown): PluginProblem {
  const { file, Class, secrets = new Map() } = loaded;
  const error = thrown instanceof Error ? thrown : undefined;
  // Driver errors repeat addresses with their passwords, also in a normalized spelling.
  const reason = new Redactor(secrets.keys()).text(replaceSecrets(thrownMessage(thrown), secrets));
  const message = `${what} class ${classLabel(Class)} threw: ${reason}${remedy(loaded)}`;
  // Finds the first stack frame in the plugin's own file.
  for (const line of error?.stack?.split("\n") ?? []) {
    const place = /\(?([^()\s]+):(\d+):(\d+)\)?$/.exec(line);
    const where = place?.[1]?.split("?", 1)[0];
    if (place && (where === file || where === pathToFileURL(file).href))
      return { file, line: Number(place[2]), column: Number(place[3]), message };
  }
  return { file, message };
}

const remedy = ({ place }: LoadedPlugin): string =>
  place === undefined ? "" : `; fix it or its options (${place}), or take it out of chains`;

/** Returns a problem at a class, or at a parameter of its constructor. */
function problemAt(file: string, Class: PluginClass, message: string, parameter = ""): PluginProblem {
  // A class under test has no known file.
  if (!existsSync(file)) return { file, message };
  const text = readFileSync(file, "utf8");
  const start = text.search(new RegExp(`\\bclass\\s+${classLabel(Class)}\\b|\\bexport\\s+default\\s+class\\b`));
  const list = start < 0 || parameter === "" ? -1 : text.indexOf("constructor", start);
  const within = list < 0 ? -1 : text.slice(list).search(new RegExp(`\\b${parameter}\\b`));
  const at = within < 0 ? start : list + within;
  if (at < 0) return { file, message };
  const above = text.slice(0, at).split("\n");
  return { file, line: above.length, column: (above.at(-1) as string).length + 1, message };
}

const classLabel = (Class: PluginClass): string => Class.name || "default";

/** Returns the names of a constructor's parameters, parsed from its text; empty where a default value hides one. */
function parameterNames(Class: PluginClass): string[] {
  const list = /\bconstructor\s*\(([^)]*)\)/.exec(Function.prototype.toString.call(Class))?.[1] ?? "";
  return list.split(",").map((written) => /^\s*([\w$]+)\s*(?:=|$)/.exec(written)?.[1] ?? "");
}
