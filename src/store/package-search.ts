import { statSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

/**
 * Reports whether a package was installed since this process started. Node remembers what it has not found, so only another process
 * can load it then.
 * @param folders where packages are looked for
 */
export function isInstalledSinceStart(
  name: string,
  folders = createRequire(import.meta.url).resolve.paths("x") ?? [],
): boolean {
  const files = folders.map((folder) => statSync(join(folder, name, "package.json"), { throwIfNoEntry: false }));
  return files.some((file) => file !== undefined && file.ctimeMs > performance.timeOrigin);
}
