// Creates types/, the declarations in the package. TypeScript writes one for every file reachable from the entry points; those that no
// declaration imports are removed. Comments stay where an entry point for authors of plugins exports from, and in what those files
// import, like the type of a parameter, or an exchange: editors show them there. Those of `model-gateway/protocol` are in docs/protocol-api.md.
import { spawnSync } from "node:child_process";
import { globSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const TYPES = join(ROOT, "types");
const PROTOCOL = join(TYPES, "protocol.d.ts");
/** What its methods take is imported there, but exported from the entry points as parts of it only. */
const EXCHANGE = join(TYPES, "core/exchange.d.ts");
const ENTRY_POINTS = ["index", "protocol", "store", "testing"].map((name) => join(TYPES, `${name}.d.ts`));

/** A doc comment on lines of its own. */
const COMMENT = /^[ \t]*\/\*\*[\s\S]*?\*\/\n/gm;

/** Returns the declarations that one imports. */
const importedBy = (file: string): string[] =>
  [...readFileSync(file, "utf8").matchAll(/\b(?:from|import\(|import) ?"(\.[^"]+)\.ts"/g)].map(([, specifier = ""]) =>
    join(dirname(file), `${specifier}.d.ts`),
  );

/** Returns the declarations that those of the entry points import, directly or indirectly. */
function reachableFiles(): ReadonlySet<string> {
  const found = new Set(ENTRY_POINTS);
  for (const file of found) for (const imported of importedBy(file)) found.add(imported);
  return found;
}

rmSync(TYPES, { recursive: true, force: true });
const { status } = spawnSync("tsc", ["-p", "tsconfig.types.json"], { cwd: ROOT, stdio: "inherit" });
if (status === 0) {
  const kept = reachableFiles();
  const entries = ENTRY_POINTS.filter((file) => file !== PROTOCOL);
  const exported = entries.flatMap(importedBy);
  const commented = new Set([...entries, ...exported, ...exported.flatMap(importedBy), ...importedBy(EXCHANGE)]);
  for (const file of globSync("**/*.d.ts", { cwd: TYPES }).map((name) => join(TYPES, name))) {
    if (!kept.has(file)) rmSync(file);
    else if (!commented.has(file)) writeFileSync(file, readFileSync(file, "utf8").replaceAll(COMMENT, ""));
  }
}
process.exitCode = status ?? 1;
