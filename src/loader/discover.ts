import { existsSync, readdirSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { PHASES, type PluginClass } from "../core/plugin.ts";
import type { Protocol } from "../core/protocol.ts";

/** The folder of the built-in plugins. */
export const BUILT_IN = fileURLToPath(new URL("../../plugins", import.meta.url));

/** Methods of a plugin that are not phases of an exchange. */
const OTHERS = ["serve", "start", "close"];

/** A plugin that cannot run, with the file and what is wrong in it. */
export class PluginError extends Error {
  override readonly name = "PluginError";

  constructor(file: string, reason: string, cause?: unknown) {
    super(`${file}: ${reason}`, cause === undefined ? undefined : { cause });
  }
}

/** Names of the plugins that can be used without `from`: the operator's own first, then the built-in ones. */
export function pluginNames(folder: string): string[] {
  const names = [join(folder, "plugins"), BUILT_IN]
    .filter(existsSync)
    .flatMap((each) => readdirSync(each).filter((file) => file.endsWith(".ts")));
  return [...new Set(names.map((file) => basename(file, ".ts")))];
}

/** The file a plugin's name stands for, or undefined when there is none. */
export function pluginFile(name: string, from: string | undefined, folder: string): string | undefined {
  const places =
    from === undefined
      ? [join(folder, "plugins", `${name}.ts`), join(BUILT_IN, `${name}.ts`)]
      : [resolve(folder, from)];
  return places.find(existsSync);
}

/**
 * Loads a plugin's class and checks that it can run at all.
 * @throws PluginError with file, field and reason.
 */
export async function loadPlugin(file: string): Promise<PluginClass> {
  const Class = (await load(file)) as PluginClass | undefined;
  if (typeof Class !== "function" || Class.prototype === undefined)
    throw new PluginError(file, "the default export must be a class: export default class … implements Plugin");
  const methods = Object.getOwnPropertyNames(Class.prototype).filter((name) => name !== "constructor");
  const known: readonly string[] = [...PHASES, ...OTHERS];
  if (!methods.some((name) => known.includes(name)))
    throw new PluginError(
      file,
      `the class fills no phase; it has ${methods.join(", ") || "no methods"}, phases are ${known.join(", ")}`,
    );
  const { options, after }: { options?: unknown; after?: unknown } = Class;
  if (options !== undefined && typeof (options as { safeParse?: unknown }).safeParse !== "function")
    throw new PluginError(file, "static options must be a zod schema");
  if (after !== undefined && !(Array.isArray(after) && after.every((name) => typeof name === "string")))
    throw new PluginError(file, "static after must be a list of plugin names");
  return Class;
}

/** Every protocol of `plugins/protocols/`, checked against its folder's name. */
export async function loadProtocols(folder = join(BUILT_IN, "protocols")): Promise<Protocol[]> {
  const names = readdirSync(folder, { withFileTypes: true }).filter(
    (entry) => entry.isDirectory() && existsSync(join(folder, entry.name, "index.ts")),
  );
  const protocols = await Promise.all(
    names.map(({ name }) => load(join(folder, name, "index.ts")) as Promise<Protocol>),
  );
  for (const [i, protocol] of protocols.entries()) {
    const expected = names[i]?.name as string;
    if (protocol?.name !== expected)
      throw new PluginError(join(folder, expected, "index.ts"), `name must be "${expected}", as the folder is called`);
  }
  if (protocols.filter((protocol) => protocol.common).length !== 1)
    throw new PluginError(folder, "exactly one protocol must be the common dialect");
  return protocols;
}

async function load(file: string): Promise<unknown> {
  try {
    const module = (await import(pathToFileURL(file).href)) as { default?: unknown };
    return module.default;
  } catch (thrown) {
    const error = thrown as Error;
    // A TypeScript interface leaves nothing behind at run time, so a plain import of one fails here.
    const hint = /does not provide an export named/.test(error.message)
      ? " (an interface must be imported with `import type`)"
      : "";
    throw new PluginError(file, `${error.message}${hint}`, thrown);
  }
}
