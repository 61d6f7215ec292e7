import { existsSync, readdirSync } from "node:fs";
import { registerHooks } from "node:module";
import { join, parse, resolve, sep } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import type { ZodType } from "zod";
import { allowedKeys } from "../config/issues.ts";
import { COMMON_OPTIONS } from "../config/secrets.ts";
import { nearest } from "../config/suggest.ts";
import type { PluginClass } from "../core/plugin.ts";
import type { Protocol } from "../core/protocol.ts";
import { pluginError } from "./problems.ts";
// Before any plugin registers something.
import "./registrations.ts";
import { thrownMessage } from "../core/errors.ts";
import { importCode, loadInTime, noteMissing } from "./versions.ts";

/** The folder of the built-in plugins. */
export const PLUGINS_FOLDER = fileURLToPath(new URL("../../plugins", import.meta.url));

/** Milliseconds for a file to run: a top-level `await` may never end. */
const IMPORT_TIMEOUT = 10_000;

/** Extensions of a plugin's file, in order of precedence. */
const EXTENSIONS = [".ts", ".mts", ".js", ".mjs"];

/** The plugins in it. In a checkout those of the operator may be beside them: they are checked like any others. */
const BUILT_IN = ["auth", "limits", "models", "opentelemetry", "record", "rewrite", "scrub", "sse", "usage"];

export const isBuiltIn = (file: string): boolean =>
  file.startsWith(PLUGINS_FOLDER + sep) && BUILT_IN.includes(parse(file).name);

/** Returns the names of plugins that need no `from`: the operator's own first, then the built-in ones. */
export const pluginNames = (folder: string): string[] => [
  ...new Set([...pluginsIn(join(folder, "plugins")), ...pluginsIn(PLUGINS_FOLDER)].map(({ name }) => name)),
];

/** Returns the files of the operator's own plugins that need no `from`; none where their folder cannot be read. */
export function ownPluginFiles(folder: string): string[] {
  const place = join(folder, "plugins");
  try {
    return pluginsIn(place).map(({ file }) => join(place, file));
  } catch {
    return [];
  }
}

const pluginsIn = (place: string): { name: string; file: string }[] =>
  (existsSync(place) ? readdirSync(place) : []).flatMap((file) => {
    const [, name] = /^(.+?)(?<!\.d)\.m?[tj]s$/.exec(file) ?? [];
    return name === undefined ? [] : [{ name, file }];
  });

/**
 * Returns the file of a plugin, or undefined when there is none.
 * @param from a path relative to the folder, or the name of an npm package that is installed there or with the gateway.
 */
export function pluginFile(name: string, from: string | undefined, folder: string): string | undefined {
  if (from !== undefined) return isPath(from) ? existingFile(resolve(folder, from)) : packageFile(from, folder);
  return [join(folder, "plugins"), PLUGINS_FOLDER]
    .flatMap((place) => EXTENSIONS.map((ending) => join(place, name + ending)))
    .find(existsSync);
}

/** Returns a file if it exists; one that does not is watched for. */
function existingFile(file: string): string | undefined {
  if (existsSync(file)) return file;
  noteMissing(file);
  return undefined;
}

/** Describes where `pluginFile` looked without success. */
export const notFoundMessage = (from: string, folder: string): string =>
  isPath(from)
    ? `there is no file ${resolve(folder, from)}`
    : `there is no package ${from} in node_modules of ${resolve(folder)} or of a folder above it`;

/**
 * Reports whether `from` is a path: it starts with a dot or a slash, or has a file extension. `@scope/name`, `name` and
 * `name/part` are packages.
 */
const isPath = (from: string): boolean => /^[./]/.test(from) || EXTENSIONS.some((ending) => from.endsWith(ending));

/** Resolves `import "name"` from a folder, by Node's own rules, including a package's exports. */
function packageFile(name: string, folder: string): string | undefined {
  const parentURL = pathToFileURL(join(folder, "gateway.yaml")).href;
  const hook = registerHooks({ resolve: (specifier, context, next) => next(specifier, { ...context, parentURL }) });
  try {
    const url = import.meta.resolve(name);
    return url.startsWith("file:") ? fileURLToPath(url) : undefined;
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === "ERR_MODULE_NOT_FOUND") return undefined;
    throw thrown;
  } finally {
    hook.deregister();
  }
}

/**
 * Loads a plugin's class and checks its static members.
 * @param timeout milliseconds
 * @throws PluginError with file, field and reason.
 */
export async function loadPlugin(file: string, timeout = IMPORT_TIMEOUT): Promise<PluginClass> {
  const Class = (await defaultOf(file, importCode(file, timeout))) as PluginClass | undefined;
  if (typeof Class !== "function" || Class.prototype === undefined)
    throw pluginError(file, "the default export must be a class: export default class … implements Plugin");
  const { options, answers, after, before }: Partial<Record<"options" | "answers" | "after" | "before", unknown>> =
    Class;
  if (options !== undefined && !isSchema(options)) throw pluginError(file, "static options must be a zod schema");
  if (answers !== undefined && !Object.values(Object(answers)).every(isSchema))
    throw pluginError(file, "static answers must be { all, one }, each a zod schema");
  const taken =
    options === undefined ? undefined : allowedKeys(options as ZodType).find((name) => COMMON_OPTIONS.has(name));
  if (taken !== undefined)
    throw pluginError(file, `static options cannot hold "${taken}", which every plugin has in gateway.yaml`);
  for (const [member, names] of Object.entries({ after, before }))
    if (names !== undefined && !(Array.isArray(names) && names.every((name) => typeof name === "string")))
      throw pluginError(file, `static ${member} must be a list of plugin names`);
  return Class;
}

const isSchema = (value: unknown): boolean =>
  typeof (value as { safeParse?: unknown } | null)?.safeParse === "function";

/** Loads every protocol of `plugins/protocols/`, and checks that its name is that of its folder. */
export async function loadProtocols(folder = join(PLUGINS_FOLDER, "protocols")): Promise<Protocol[]> {
  const names = readdirSync(folder, { withFileTypes: true }).filter(
    (entry) => entry.isDirectory() && existsSync(join(folder, entry.name, "index.ts")),
  );
  const protocols = await Promise.all(
    names.map(({ name }) => {
      const file = join(folder, name, "index.ts");
      return defaultOf(file, loadInTime(import(pathToFileURL(file).href), IMPORT_TIMEOUT)) as Promise<Protocol>;
    }),
  );
  for (const [i, protocol] of protocols.entries()) {
    const expected = names[i]?.name as string;
    if (protocol?.name !== expected)
      throw pluginError(join(folder, expected, "index.ts"), `name must be "${expected}", as the folder is called`);
  }
  if (protocols.filter((protocol) => protocol.isDefault).length !== 1)
    throw pluginError(folder, "exactly one protocol must be the common dialect");
  return protocols;
}

/** What most plugins import names from. */
const COMMON_MODULES = ["model-gateway", "model-gateway/store", "model-gateway/protocol", "tsyringe"];

/** Returns a hint for V8's message about a name that a module does not export; empty for other messages. */
async function missingExportHint(message: string): Promise<string> {
  const [, from = "", name = ""] = /module '(.+)' does not provide an export named '(.+)'/.exec(message) ?? [];
  if (name === "") return "";
  // A TypeScript interface does not exist at run time, so a plain import of one fails too.
  const hint = " (an interface must be imported with `import type`)";
  if (!COMMON_MODULES.includes(from)) return hint;
  for (const module of new Set([from, ...COMMON_MODULES])) {
    const near = nearest(name, Object.keys((await import(module)) as object));
    if (near !== undefined) return `, did you mean "${near}"${module === from ? "" : ` from "${module}"`}?${hint}`;
  }
  return hint;
}

/** Messages of Node about code of CommonJS, or read as such. */
const COMMONJS =
  /require\(\)|not defined in ES module scope|Cannot use import statement|Unexpected token 'export'|Cannot find module '(?:model-gateway|tsyringe)/;

/** Returns a hint for such a message, which blames something else; empty for other messages. */
const moduleHint = (message: string): string =>
  COMMONJS.test(message)
    ? `; plugins are ES modules: write import and export, in a .ts or .mjs file or beside a package.json with "type": "module"`
    : "";

/** Returns the default export of a file's module. @throws PluginError */
async function defaultOf(file: string, loading: Promise<unknown>): Promise<unknown> {
  try {
    return ((await loading) as { default?: unknown }).default;
  } catch (thrown) {
    const message = thrownMessage(thrown);
    throw pluginError(file, `${message}${await missingExportHint(message)}${moduleHint(message)}`, thrown);
  }
}
