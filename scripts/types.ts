// Creates types/, the declarations in the package. TypeScript writes one for every file reachable from the doors; those that no
// declaration imports are removed.
import { spawnSync } from "node:child_process";
import { globSync, readFileSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const TYPES = join(ROOT, "types");
const ENTRY_POINTS = ["index", "protocol", "store", "testing"].map((door) => join(TYPES, `${door}.d.ts`));

/** Returns the declarations that those of the doors import, directly or indirectly. */
function reachableFiles(): ReadonlySet<string> {
  const found = new Set(ENTRY_POINTS);
  for (const file of found)
    for (const [, specifier = ""] of readFileSync(file, "utf8").matchAll(
      /\b(?:from|import\(|import) ?"(\.[^"]+)\.ts"/g,
    ))
      found.add(join(dirname(file), `${specifier}.d.ts`));
  return found;
}

rmSync(TYPES, { recursive: true, force: true });
const { status } = spawnSync("tsc", ["-p", "tsconfig.types.json"], { cwd: ROOT, stdio: "inherit" });
if (status === 0) {
  const kept = reachableFiles();
  for (const file of globSync("**/*.d.ts", { cwd: TYPES })) if (!kept.has(join(TYPES, file))) rmSync(join(TYPES, file));
}
process.exitCode = status ?? 1;
