import { readFileSync } from "node:fs";
import { FileError } from "../core/errors.ts";
import { isInstalledSinceStart } from "./package-search.ts";

/**
 * Loads packages that only some configurations need.
 * @param names one, or all that are needed together
 * @param load imports them
 * @param user what needs them, as the beginning of a sentence
 * @throws FileError with what to install, if one is missing
 */
export async function optionalPackage<T>(
  names: string | readonly string[],
  load: () => Promise<unknown>,
  user: string,
): Promise<T> {
  try {
    return (await load()) as T;
  } catch (thrown) {
    if (!isNotFound(thrown)) throw thrown;
    const all = [names].flat();
    const what = all.length === 1 ? `the package ${all[0]}, which is` : `the packages ${all.join(", ")}, which are`;
    if (all.some((name) => isInstalledSinceStart(name)))
      throw new FileError(`${user} needs ${what} installed only since this process started: restart it`, {
        cause: thrown,
      });
    const install = all.map((name) => `${name}@${testedVersion(name)}`).join(" ");
    throw new FileError(`${user} needs ${what} not installed: npm i ${install}`, { cause: thrown });
  }
}

/** Reports whether an error is that of `optionalPackage` for a package that is missing. */
export const isMissingPackage = ({ cause }: FileError): boolean => isNotFound(cause);

const isNotFound = (thrown: unknown): boolean =>
  (thrown as NodeJS.ErrnoException | undefined)?.code === "ERR_MODULE_NOT_FOUND";

/** Returns the version that this program is tested with. */
function testedVersion(name: string): string {
  const { peerDependencies } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as {
    peerDependencies: Record<string, string>;
  };
  return peerDependencies[name] ?? "latest";
}
