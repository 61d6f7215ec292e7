import { existsSync, globSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import t from "tap";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const files = (pattern: string): string[] =>
  globSync(pattern, { cwd: ROOT })
    .map((file) => file.replaceAll("\\", "/"))
    .sort();
const text = (file: string): string => readFileSync(join(ROOT, file), "utf8");
const imports = (file: string): string[] =>
  [
    ...text(file).matchAll(/^(?:import\s*|(?:import|export)\b[^;"]*?\bfrom\s*)"([^"\n]+)";|\bimport\("([^"]+)"\)/gm),
  ].map((found) => (found[1] ?? found[2]) as string);
const target = (file: string, specifier: string): string =>
  relative(ROOT, resolve(ROOT, dirname(file), specifier)).replaceAll("\\", "/");

const SOURCES = files("src/**/*.{ts,js}");
const PLUGINS = files("plugins/**/*.ts");
const EXAMPLES = files("examples/*.ts");
/** Lines at which a file is no longer read in one go. */
const LONGEST = 800;
const VENDORS =
  /openai|anthropic|claude|gemini|google|gpt|mistral|groq|deepseek|openrouter|litellm|portkey|helicone|vertex|azure|bedrock/i;
/** Names of header fields that clients of a vendor send with the gateway's own key; they have no other name. */
const FIELDS = /x-goog-api-key/g;

t.test("the engine never imports a plugin", async (t) => {
  for (const file of SOURCES)
    for (const specifier of imports(file))
      t.notOk(
        specifier.startsWith(".") && target(file, specifier).startsWith("plugins/"),
        `${file} imports ${specifier}`,
      );
});

/** The folders a plugin may import from: its own, and that of its family where there is one (`openai` of `openai-…`). */
function folders(file: string): string[] {
  const [, kind, name = ""] = file.split("/") as [string, string, string | undefined];
  if (kind !== "protocols") return [`plugins/${kind.replace(/\.ts$/, "")}`];
  const own = `plugins/protocols/${name}`;
  const families = [...own.matchAll(/-/g)].map(({ index }) => own.slice(0, index));
  return [own, ...families.filter((family) => !existsSync(join(ROOT, family, "index.ts")))];
}

t.test("a plugin imports only the gateway, node, declared packages, its own folder and its family's", async (t) => {
  const { dependencies } = JSON.parse(text("package.json")) as { dependencies: Record<string, string> };
  for (const file of [...PLUGINS, ...EXAMPLES]) {
    for (const specifier of imports(file)) {
      const fine = specifier.startsWith(".")
        ? folders(file).some((folder) => target(file, specifier).startsWith(`${folder}/`))
        : /^model-gateway(?:\/protocol)?$/.test(specifier) ||
          specifier.startsWith("node:") ||
          Object.hasOwn(dependencies, specifier);
      t.ok(fine, `${file} imports ${specifier}`);
    }
  }
});

t.test("http-proxy-3 is known to proxy.ts alone", async (t) => {
  const users = SOURCES.filter((file) => imports(file).includes("http-proxy-3"));
  t.same(users, ["src/upstream/proxy.ts"]);
});

t.test("container resolution stands in container.ts alone", async (t) => {
  const users = SOURCES.filter((file) => /\.resolve(?:All)?\(/.test(text(file)) && imports(file).includes("tsyringe"));
  t.same(users, ["src/container.ts"]);
});

t.test("no vendor's name stands in the engine", async (t) => {
  for (const file of SOURCES) {
    const lines = text(file).replaceAll(FIELDS, "").split("\n");
    const found = lines.findIndex((line) => VENDORS.test(line));
    t.equal(found, -1, `${file}:${found + 1}`);
  }
});

t.test("every source file has its test", async (t) => {
  const mirrored = (file: string): string => `test/${file.replace(/^src\//, "").replace(/\.(ts|js)$/, ".test.ts")}`;
  const typesOnly = (file: string): boolean =>
    !/^(?:export )?(?:default )?(?:async )?(?:class|function|const|let)\b/m.test(text(file));
  for (const file of [...SOURCES, ...PLUGINS, ...EXAMPLES]) {
    if (typesOnly(file)) continue;
    const folder = dirname(mirrored(file));
    t.ok(
      existsSync(join(ROOT, mirrored(file))) ||
        existsSync(join(ROOT, `${folder}.test.ts`)) ||
        existsSync(join(ROOT, folder, "index.test.ts")),
      `${file} has no ${mirrored(file)}`,
    );
  }
});

t.test("no file is too long to be read in one go", async (t) => {
  for (const file of [...SOURCES, ...PLUGINS]) t.ok(text(file).split("\n").length <= LONGEST + 1, file);
});
