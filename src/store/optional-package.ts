import { readFileSync } from "node:fs";
import { FileError } from "../core/errors.ts";

/**
 * Loads a package that only some configurations need.
 * @param load imports it
 * @param user what needs it, as the beginning of a sentence
 * @throws FileError with what to install, where it is not there
 */
export async function optionalPackage<T>(name: string, load: () => Promise<unknown>, user: string): Promise<T> {
  try {
    return (await load()) as T;
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code !== "ERR_MODULE_NOT_FOUND") throw thrown;
    throw new FileError(`${user} needs the package ${name}, which is not installed: npm i ${name}@${versionOf(name)}`, {
      cause: thrown,
    });
  }
}

/** The version that this program is tested with. */
function versionOf(name: string): string {
  const { peerDependencies } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as {
    peerDependencies: Record<string, string>;
  };
  return peerDependencies[name] ?? "latest";
}
