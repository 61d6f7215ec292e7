import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import t from "tap";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const text = (file: string): string => readFileSync(join(ROOT, file), "utf8");

/** Names between braces, as they are called inside: `{ type A, B as C }` → A, B. */
const names = (list: string): string[] =>
  list
    .split(",")
    .map((entry) => /(\w+)(?:\s+as\s+\w+)?\s*$/.exec(entry.replace(/\s+as\s+\w+\s*$/, ""))?.[1] ?? "")
    .filter((name) => name !== "");

/** What a door exports: each name with the file that declares it. */
function exported(door: string): Map<string, string> {
  const found = text(door).matchAll(/^export (?:type )?\{([^}]*)\} from "\.\/([^"]+)"/gm);
  return new Map([...found].flatMap(([, list = "", file]) => names(list).map((name) => [name, `src/${file}`])));
}

/** Names that plugins and examples import through a door. */
function imported(specifier: string): Set<string> {
  const files = globSync(["plugins/**/*.ts", "examples/**/*.ts"], { cwd: ROOT });
  const found = files.flatMap((file) => [...text(file).matchAll(/^import (?:type )?\{([^}]*)\} from "([^"]+)"/gm)]);
  return new Set(found.filter(([, , from]) => from === specifier).flatMap(([, list = ""]) => names(list)));
}

for (const [specifier, door, most] of [
  ["model-gateway", "src/index.ts", 40],
  ["model-gateway/store", "src/store.ts", 20],
  ["model-gateway/protocol", "src/protocol.ts", 130],
] as const)
  t.test(
    `every name of ${specifier} is imported by a plugin or an example, or stands in what one that is says`,
    async (t) => {
      const files = exported(door);
      const used = imported(specifier);
      /** Files of what is used, without their imports: signatures that name others. */
      const signatures = [...new Set([...used].flatMap((name) => files.get(name) ?? []))].map((file) =>
        text(file).replaceAll(/^import [^;]*;$/gm, ""),
      );
      const idle = [...files.keys()].filter((name) => {
        const mentions = new RegExp(`\\b${name}\\b(?<!(?:class|interface|type|function|const) ${name})`);
        return !used.has(name) && !signatures.some((signature) => mentions.test(signature));
      });
      t.same(idle, [], "exported, and nobody uses it");
      t.same(
        [...used].filter((name) => !files.has(name)),
        [],
        "imported, and not exported",
      );
      t.ok(files.size <= most, `${files.size} names are ${files.size - most} too many to learn`);
    },
  );
