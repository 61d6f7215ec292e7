import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import t from "tap";
import { PHASES } from "../src/core/plugin.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const text = (file: string): string => readFileSync(join(ROOT, file), "utf8");

/** Names between braces, as they are called inside: `{ type A, B as C }` → A, B. */
const names = (list: string): string[] =>
  list
    .split(",")
    .map((entry) => /(\w+)(?:\s+as\s+\w+)?\s*$/.exec(entry.replace(/\s+as\s+\w+\s*$/, ""))?.[1] ?? "")
    .filter((name) => name !== "");

/** What an entry point exports: each name with the file that declares it. */
function exported(entry: string): Map<string, string> {
  const found = text(entry).matchAll(/^export (?:type )?\{([^}]*)\} from "\.\/([^"]+)"/gm);
  return new Map([...found].flatMap(([, list = "", file]) => names(list).map((name) => [name, `src/${file}`])));
}

/** Names that files import through an entry point. */
function imported(specifier: string, pattern: string): Set<string> {
  const files = globSync(pattern, { cwd: ROOT });
  const found = files.flatMap((file) => [...text(file).matchAll(/^import (?:type )?\{([^}]*)\} from "([^"]+)"/gm)]);
  return new Set(found.filter(([, , from = ""]) => from.endsWith(specifier)).flatMap(([, list = ""]) => names(list)));
}

const PLUGINS = "{plugins,examples}/**/*.ts";
for (const [entry, specifier, users, most] of [
  ["src/index.ts", "model-gateway", PLUGINS, 36],
  ["src/store.ts", "model-gateway/store", PLUGINS, 22],
  ["src/protocol.ts", "model-gateway/protocol", PLUGINS, 125],
  // Tests in the checkout import the file.
  ["src/testing.ts", "/src/testing.ts", "test/{plugins,examples}/**/*.ts", 3],
] as const)
  t.test(`every name of ${entry} is imported by ${users}`, async (t) => {
    const files = exported(entry);
    const used = imported(specifier, users);
    t.same(
      [...files.keys()].filter((name) => !used.has(name)),
      [],
      "exported, but not used",
    );
    t.same(
      [...used].filter((name) => !files.has(name)),
      [],
      "imported, and not exported",
    );
    t.ok(files.size <= most, `${files.size} names are ${files.size - most} too many to learn`);
  });

t.test("every export that docs/plugins.md mentions exists", async (t) => {
  const page = text("docs/plugins.md");
  const entries = new Map<string, Map<string, string>>(
    Object.entries({ "": "index", "/store": "store", "/protocol": "protocol", "/testing": "testing" }).map(
      ([path, file]) => [`model-gateway${path}`, exported(`src/${file}.ts`)] as const,
    ),
  );
  const missing: string[] = [];
  const imports = [...page.matchAll(/^import (?:type )?\{([^}]*)\} from "(model-gateway[^"]*)"/gm)];
  const rows = [...page.matchAll(/^\| `(model-gateway[^`]*)` \| (.*) \|$/gm)].map(([row, from = "", cell = ""]) => [
    row,
    [...cell.matchAll(/`(\w+)`/g)].map(([, name]) => name).join(),
    from,
  ]);
  t.ok(imports.length > 1 && rows.length > 1, `${imports.length} imports and ${rows.length} rows`);
  for (const [, list = "", from = ""] of [...imports, ...rows])
    for (const name of names(list)) if (!entries.get(from)?.has(name)) missing.push(`${name} from ${from}`);

  // What else stands in code among the sentences: classes and types, and functions that are called.
  const sentences = page.replaceAll(/^```[\s\S]*?^```/gm, "");
  const code = [...sentences.matchAll(/`([^`]+)`/g)].map(([, words = ""]) => words);
  const named = new Set(
    code.flatMap((words) => [...words.matchAll(/(?<![\w.$"])(?:[A-Z][a-z]\w*|[a-z]\w*(?=\())/g)].map(([name]) => name)),
  );
  // Members of what phases and tests get.
  const types = {
    answer: "FailedAnswer",
    attempt: "Attempt",
    exchange: "Exchange",
    head: "Head",
    driven: "TestGateway",
  };
  const declarations = text("docs/plugin-api.md").replaceAll(/\/\*\*[\s\S]*?\*\//g, "");
  for (const [variable, type] of Object.entries(types)) {
    const declaration =
      new RegExp(`^(?:class|interface) ${type} .*$[\\s\\S]*?^\\}$`, "m").exec(declarations)?.[0] ?? "";
    const members = code.flatMap((words) => [...words.matchAll(new RegExp(`\\b${variable}\\.(\\w+)`, "g"))]);
    t.ok(members.length > 0, `members of ${variable} are named`);
    for (const [member, name = ""] of members)
      if (!new RegExp(`^  .*\\b${name}\\b[?<(:]`, "m").test(declaration)) missing.push(member);
  }

  const elsewhere = new Set([
    // Other packages', a plugin's own class, and a word of Gemini's.
    ...["inject", "injectable", "singleton", "Class", "MyPlugin", "ShortOnly", "ErrorInfo"],
    // Methods of what the sentence is about: of a kept value, of a driven answer, and of keys.
    ...["get", "set", "json", "texts", "countWrongKey"],
    ...PHASES,
    ...["serve", "recorded", "start", "close"],
  ]);
  t.ok(named.size > 40, `${named.size} names`);
  for (const name of named)
    if (!elsewhere.has(name) && ![...entries.values()].some((entry) => entry.has(name))) missing.push(name);
  t.same(missing, [], "listed, but exported by no entry point");
  t.same(
    [...elsewhere].filter((name) => !named.has(name)),
    [],
    "left out, and missing in the list",
  );
});
