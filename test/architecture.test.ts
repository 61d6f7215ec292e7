import { existsSync, globSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import t from "tap";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const files = (pattern: string): string[] =>
  globSync(pattern, { cwd: ROOT })
    .map((file) => file.replaceAll("\\", "/"))
    // What the benchmark installs is not the project's.
    .filter((file) => !file.startsWith("test/bench/build/"))
    .sort();
const text = (file: string): string => readFileSync(join(ROOT, file), "utf8");
/** What a file imports, types included. */
const imports = (file: string): string[] =>
  [
    ...text(file).matchAll(/^(?:import\s*|(?:import|export)\b[^;"]*?\bfrom\s*)"([^"\n]+)";|\bimport\("([^"]+)"\)/gm),
  ].map((found) => (found[1] ?? found[2]) as string);
/** The file or folder a relative import leads to. */
const target = (file: string, specifier: string): string =>
  relative(ROOT, resolve(ROOT, dirname(file), specifier)).replaceAll("\\", "/");

const SOURCES = files("src/**/*.{ts,js}");
const PLUGINS = files("plugins/**/*.ts");
const EXAMPLES = files("examples/*.ts");
/** Lines at which a file is no longer read in one go. */
const MAX_FILE_LINES = 800;
const VENDORS =
  /openai|anthropic|claude|gemini|google|gpt|mistral|groq|deepseek|openrouter|litellm|portkey|helicone|vertex|azure|bedrock/i;
/** Names of header fields that clients of a vendor send with the gateway's own key; they have no other name. */
const FIELDS = /x-goog-api-key/g;

/** Imports of some files that a rule forbids, like `src/a.ts imports ./b.ts`. */
function forbidden(among: readonly string[], rule: (file: string, specifier: string) => boolean): string[] {
  return among.flatMap((file) =>
    imports(file)
      .filter((specifier) => rule(file, specifier))
      .map((specifier) => `${file} imports ${specifier}`),
  );
}

t.test("the engine never imports a plugin", async (t) => {
  const found = forbidden(SOURCES, (file, specifier) => target(file, specifier).startsWith("plugins/"));
  t.same(found, []);
});

t.test("src/core imports only itself and src/wire, and src/wire only itself", async (t) => {
  const outside = (rooms: RegExp) => (file: string, specifier: string) =>
    specifier.startsWith(".") && !rooms.test(target(file, specifier));
  t.same(forbidden(files("src/core/*.ts"), outside(/^src\/(?:core|wire)\//)), []);
  t.same(forbidden(files("src/wire/*.ts"), outside(/^src\/wire\//)), []);
});

t.test("no generator function stands in another function: V8 keeps what that one refers to", (t) => {
  const inner = [...SOURCES, ...PLUGINS].filter((file) =>
    /(?:^[^\S\n]+|=\s*|=>\s*|return )(?:async )?function\s*\*/m.test(text(file)),
  );
  t.same(inner, []);
  t.end();
});

t.test(
  "no function is created where it is assigned to a member: V8 allocates it among old objects, and keeps what it uses",
  (t) => {
    const perRequest = [...SOURCES, ...PLUGINS].filter((file) =>
      /^(?:plugins|src\/(?:core|downstream|objects|text|translation|upstream|wire))\//.test(file),
    );
    const assigned = /[\w\])]\.\w+ (?:\?\?|\|\|)?= (?:async )?(?:\([^()]*\)(?:: [^=\n]+)?|\w+) =>/;
    const getterInLiteral = /^ {4,}get \w+\(\)/m;
    t.same(
      perRequest.filter((file) => assigned.test(text(file)) || getterInLiteral.test(text(file))),
      [],
    );
    t.end();
  },
);

/** The folders a plugin may import from: its own, and that of its family where there is one (`openai` of `openai-…`). */
function folders(file: string): string[] {
  const [top, kind = "", name = ""] = file.split("/") as [string, string | undefined, string | undefined];
  if (kind !== "protocols") return [`${top}/${kind.replace(/\.ts$/, "")}`];
  const own = `plugins/protocols/${name}`;
  const families = [...own.matchAll(/-/g)].map(({ index }) => own.slice(0, index));
  return [own, ...families.filter((family) => !existsSync(join(ROOT, family, "index.ts")))];
}

t.test(
  "a plugin imports only its entry points, node, declared packages, its own folder and its family's",
  async (t) => {
    const { dependencies, peerDependencies } = JSON.parse(text("package.json")) as Record<
      "dependencies" | "peerDependencies",
      Record<string, string>
    >;
    // What may be missing is loaded when a plugin starts; its types are there or not, and nobody runs them.
    const optional = (file: string, specifier: string) =>
      Object.hasOwn(peerDependencies, specifier) &&
      !new RegExp(`^import (?!type )[^;"]*"${specifier}"`, "m").test(text(file));
    const found = forbidden([...PLUGINS, ...EXAMPLES], (file, specifier) => {
      if (specifier.startsWith("."))
        return !folders(file).some((folder) => target(file, specifier).startsWith(`${folder}/`));
      const entries = file.startsWith("plugins/protocols/")
        ? ["model-gateway/protocol"]
        : ["model-gateway", "model-gateway/store"];
      return (
        !entries.includes(specifier) &&
        !specifier.startsWith("node:") &&
        !Object.hasOwn(dependencies, specifier) &&
        !optional(file, specifier)
      );
    });
    t.same(found, []);
  },
);

t.test("only proxy.ts imports http-proxy-3", async (t) => {
  const users = SOURCES.filter((file) => imports(file).includes("http-proxy-3"));
  t.same(users, ["src/upstream/proxy.ts"]);
});

t.test("the HTTP/1.1 client imports nothing of the gateway but header names", async (t) => {
  for (const file of files("src/upstream/http1/*.ts"))
    for (const specifier of imports(file))
      t.match(specifier, /^(?:node:|\.\/|\.\.\/\.\.\/wire\/)/, `${file} imports ${specifier}`);
});

t.test("only container.ts resolves dependencies", async (t) => {
  const users = SOURCES.filter((file) => /\.resolve(?:All)?\(/.test(text(file)) && imports(file).includes("tsyringe"));
  t.same(users, ["src/container.ts"]);
});

t.test("no vendor's name occurs in the engine, except in the readers of price tables", async (t) => {
  const found = SOURCES.filter((file) => !file.startsWith("src/prices/")).flatMap((file) =>
    text(file)
      .replaceAll(FIELDS, "")
      .split("\n")
      .flatMap((line, i) => (VENDORS.test(line) ? [`${file}:${i + 1} ${line.trim()}`] : [])),
  );
  t.same(found, []);
});

/** What each file imports of ours. */
const importsOf = (among: readonly string[]): Map<string, string[]> =>
  new Map(
    among.map((file) => [file, imports(file).flatMap((each) => (each.startsWith(".") ? [target(file, each)] : []))]),
  );

/** Groups that import each other in a circle (Tarjan's strongly connected components). */
function circles(edges: ReadonlyMap<string, readonly string[]>): string[][] {
  const found: string[][] = [];
  const order = new Map<string, number>();
  const lowest = new Map<string, number>();
  const stack: string[] = [];
  const visit = (file: string): number => {
    order.set(file, order.size);
    lowest.set(file, order.get(file) as number);
    stack.push(file);
    for (const next of edges.get(file) ?? []) {
      if (!edges.has(next)) continue;
      const low = order.has(next) ? (stack.includes(next) ? (order.get(next) as number) : Infinity) : visit(next);
      lowest.set(file, Math.min(lowest.get(file) as number, low));
    }
    if (lowest.get(file) === order.get(file)) {
      const circle = stack.splice(stack.indexOf(file));
      if (circle.length > 1) found.push(circle);
    }
    return lowest.get(file) as number;
  };
  for (const file of edges.keys()) if (!order.has(file)) visit(file);
  return found;
}

t.test("imports are never circular, types included", async (t) => {
  t.same(circles(importsOf([...SOURCES, ...PLUGINS])), []);
});

/** The folder of the engine in which a file is; undefined for those beside the folders, which put them together. */
const roomOf = (file: string): string | undefined => /^src\/(\w+)\//.exec(file)?.[1];

t.test("imports between the engine's folders are never circular", async (t) => {
  const rooms = new Map<string, string[]>();
  for (const [file, imported] of importsOf(SOURCES)) {
    const room = roomOf(file);
    const others = imported.flatMap((each) => roomOf(each) ?? []).filter((other) => other !== room);
    if (room !== undefined) rooms.set(room, [...(rooms.get(room) ?? []), ...others]);
  }
  t.ok(rooms.size > 10);
  t.same(circles(rooms), []);
});

t.test("no folder of the engine imports one that docs/architecture.md draws above it", async (t) => {
  const [drawn = ""] = text("docs/architecture.md").split("exports - -");
  const order = [...drawn.matchAll(/\bsrc\/(\w+)\/(?=[ ,])/g)].map(([, name]) => name);
  const among = new Set(SOURCES.flatMap((file) => roomOf(file) ?? []));
  t.same([...among].filter((room) => !order.includes(room)).sort(), ["testing"], "which only an export leads to");
  const upwards = forbidden(SOURCES, (file, specifier) => {
    const [from, to] = [roomOf(file), roomOf(target(file, specifier))];
    return from !== undefined && to !== undefined && among.has(to) && order.indexOf(to) < order.indexOf(from);
  });
  t.same(upwards, []);
});

t.test("a type's name is defined once", async (t) => {
  const places = new Map<string, string[]>();
  // A schema and the type of what it gives are one thing.
  for (const file of [...SOURCES, ...PLUGINS])
    for (const [, name = ""] of text(file).matchAll(
      /^(?:export )?(?:default )?(?:abstract )?(?:interface|type|class|enum|const(?= [A-Z]\w*[a-z])) (\w+)/gm,
    ))
      if (!places.get(name)?.includes(file)) places.set(name, [...(places.get(name) ?? []), file]);
  t.same(
    [...places].filter(([, where]) => where.length > 1),
    [],
  );
});

/** What the same file of several protocol folders exports, and `index.ts` is put together from. */
const PROTOCOL_INTERFACE = new Set([
  ...["support", "fields", "texts", "opaque", "objects", "otherModels", "vendorObjects", "RAW_MEMBERS"],
  ...["decodeRequest", "encodeRequest"],
  ...["createDecoder", "decodeResponse"],
  ...["createEncoder", "encodeResponse", "readUsage", "holdsUsage", "hiddenReasoning", "ending"],
  ...["errorBody", "streamError", "parseErrorResponse", "refuses", "rateHeaders", "remainingRateHeaders"],
  "demo",
]);
/** What each verb's file of texts exports. */
const HELP_INTERFACE = new Set(["help", "USAGE"]);

t.test("an exported value's name is defined once", async (t) => {
  const places = new Map<string, string[]>();
  for (const file of [...SOURCES, ...PLUGINS])
    for (const [, name = ""] of text(file).matchAll(/^export (?:async )?(?:const|let|function\*?) (\w+)/gm)) {
      if (file.startsWith("plugins/protocols/") && PROTOCOL_INTERFACE.has(name)) continue;
      if (file.startsWith("src/cli/help/") && HELP_INTERFACE.has(name)) continue;
      if (!places.get(name)?.includes(file)) places.set(name, [...(places.get(name) ?? []), file]);
    }
  t.ok(places.size > 1000, "values are found");
  t.same(
    [...places].filter(([, where]) => where.length > 1),
    [],
  );
});

/** What nobody imports by its name of what a file exports, unless all of it is imported at once. */
function idleExports(among: readonly string[]): string[] {
  const named = new Map<string, Set<string>>();
  const whole = new Set<string>();
  for (const file of [...SOURCES, ...PLUGINS, ...EXAMPLES, ...files("{test,scripts}/**/*.{ts,js,mjs}")])
    for (const [, list, from = "", dynamic] of text(file).matchAll(
      /^(?:import|export)\b[^;"{}]*(?:\{([^}]*)\})?[^;"{}]*\bfrom\s*"(\.[^"\n]*)";|\bimport\("(\.[^"]+)"\)/gm,
    )) {
      const to = target(file, dynamic ?? from);
      if (list === undefined) whole.add(to);
      const names = (list ?? "").split(",").map(
        (each) =>
          each
            .trim()
            .replace(/^type /, "")
            .split(" as ")[0] ?? "",
      );
      named.set(to, new Set([...(named.get(to) ?? []), ...names]));
    }
  return among.flatMap((file) =>
    whole.has(file)
      ? []
      : [
          ...text(file).matchAll(
            /^export (?:async )?(?:abstract )?(?:const|let|function\*?|class|interface|type) (\w+)/gm,
          ),
        ].flatMap(([, name = ""]) => (named.get(file)?.has(name) ? [] : [`${name} of ${file}`])),
  );
}

t.test("everything that a file exports is imported somewhere", async (t) => {
  // Declarations of other files name this type, which their sources infer.
  t.same(idleExports([...SOURCES, ...PLUGINS]), ["Money of src/config/units.ts"]);
});

t.test("no value is exported for tests alone", async (t) => {
  const uses = new Map<string, number>();
  for (const file of [...SOURCES, ...PLUGINS, ...EXAMPLES, ...files("scripts/**/*.ts")])
    for (const [name] of code(file).matchAll(/[A-Za-z_$][\w$]*/g)) uses.set(name, (uses.get(name) ?? 0) + 1);
  const idle = [...SOURCES, ...PLUGINS].flatMap((file) =>
    [...code(file).matchAll(/^export (?:async )?(?:abstract )?(?:const|let|function\*?|class) (\w+)/gm)].flatMap(
      ([, name = ""]) => (uses.get(name) === 1 ? [`${name} of ${file}`] : []),
    ),
  );
  t.same(idle, []);
});

/** The files of a protocol's folder; each may be split at its subjects: `request.decode.tools.ts`. */
const PARTS = [
  ...["index", "wire", "request.decode", "request.encode", "response.decode", "response.encode"],
  ...["support", "usage", "errors", "texts", "objects", "demo"],
];
/** What a protocol has that translates in both directions; errors may be its family's. */
const NEEDED = PARTS.filter((part) => !["errors", "objects", "demo"].includes(part));

t.test("every protocol's folder has the same files", async (t) => {
  for (const folder of files("plugins/protocols/*/index.ts").map(dirname)) {
    const names = readdirSync(join(ROOT, folder));
    t.ok(names.includes("README.md"), `${folder} has a README`);
    const strange = names.filter(
      (name) => name !== "README.md" && !PARTS.some((part) => name === `${part}.ts` || name.startsWith(`${part}.`)),
    );
    t.same(strange, [], `${folder} imports no others`);
    if (names.includes("request.decode.ts") && names.includes("request.encode.ts"))
      t.same(
        NEEDED.filter((part) => !names.includes(`${part}.ts`)),
        [],
        `${folder} has all`,
      );
  }
});

/** Words that say in pictures what the field has a plain word for. */
const PICTURES =
  /^(?:lanes?|crossings?|passages?|outlets?|flows?|sinks?|(?:re)?tell(?:s|ings?)?|alarms?|glances?|wish(?:es)?|fates?|(?:un)?said|saying|offered|held|reached|verdicts?|pictures?)$/i;

/** A file's code without comments and without the texts of its strings. */
const code = (file: string): string =>
  text(file)
    .replaceAll(/\/\*[\s\S]*?\*\//g, "")
    .replaceAll(/(^|\s)\/\/.*$/gm, "$1")
    .replaceAll(/"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'/g, '""')
    .replaceAll(/`(?:[^`\\]|\\.)*`/g, (template) => (template.match(/\$\{[^}]*\}/g) ?? []).join(" "));

/** Words that are fine within a name and say nothing as a type's. */
const VAGUE = /^(?:Lane|Line|Call|Way|Gate|Item|Thing|Data|Info)$|Words$/;

t.test("names contain no metaphors", async (t) => {
  const found = new Set<string>();
  const shared = [...files("{scripts,test/{support,bench,drivers,examples}}/**/*.ts"), ...files("pages/**/*.js")];
  for (const file of [...SOURCES, ...PLUGINS, ...EXAMPLES, ...shared]) {
    for (const [name] of code(file).matchAll(/[A-Za-z_$][\w$]*/g))
      for (const word of name.replaceAll(/([a-z0-9])([A-Z])/g, "$1_$2").split("_"))
        if (PICTURES.test(word)) found.add(`${name} in ${file}`);
    for (const [, name = ""] of code(file).matchAll(/^(?:export )?(?:abstract )?(?:interface|type|class|enum) (\w+)/gm))
      if (VAGUE.test(name)) found.add(`${name} in ${file}`);
  }
  t.same([...found], []);
});

/** First words of a bound's name that are refused: `MAX_…` and `MIN_…` say the same. */
const SUPERLATIVES = "MOST LONGEST LARGEST BIGGEST GREATEST LEAST SHORTEST SMALLEST FEWEST DEEPEST".split(" ");

t.test("a bound's name begins with MAX_ or MIN_ and names what it bounds", async (t) => {
  const among = [...SOURCES, ...PLUGINS, ...EXAMPLES, ...files("{test,scripts,pages}/**/*.{ts,js,mjs}")];
  const found = among.flatMap((file) =>
    [...code(file).matchAll(/\b([A-Z]+)(?:_[A-Z_0-9]*)?\b/g)].flatMap(([name, first = ""]) =>
      SUPERLATIVES.includes(first) || ["MAX", "MIN"].includes(name) ? [`${name} in ${file}`] : [],
    ),
  );
  t.same(found, []);
});

t.test("every source file has its test", async (t) => {
  const mirrored = (file: string): string => `test/${file.replace(/^src\//, "").replace(/\.(ts|js)$/, ".test.ts")}`;
  const typesOnly = (file: string): boolean =>
    !/^(?:export )?(?:default )?(?:async )?(?:class|function|const|let)\b/m.test(text(file));
  const untested = [...SOURCES, ...PLUGINS, ...EXAMPLES].filter((file) => {
    const folder = dirname(mirrored(file));
    const tests = [mirrored(file), `${folder}.test.ts`, `${folder}/index.test.ts`];
    return !typesOnly(file) && !tests.some((test) => existsSync(join(ROOT, test)));
  });
  t.same(untested, []);
});

/** Comments of a source file. What follows a colon is an address, not a comment. */
const COMMENT = /\/\*[\s\S]*?\*\/|(?<=^|[\s;,{([])\/\/[^\n]*/g;
/** Words that can only be names of code: with a capital inside, or of a type. */
const CODE_NAME = /[a-z0-9][A-Z]|^[A-Z][a-z]/;
/** Names of other programs: a vendor's client, http-proxy-3, a page of Linux's manual, systemd. */
const FOREIGN_NAMES = [
  ...["createOpenAI", "HttpRetryOptions"],
  ...["deleteLength", "proc_net_tcp", "sd_listen_fds"],
  "LiteLLM_VerificationToken",
  ...["OpenAIClientSettings", "modelVersionsMap"],
  ...["DefaultAzureConfig", "DefaultAnthropicConfig", "WithUseResponsesAPI"],
];

/** Names of code among sentences: a name in backticks, with or without members and parentheses, or one in a link. */
function namesOfCode(sentences: string): string[] {
  const code = sentences.matchAll(/`((?:[A-Za-z_$][\w$]*\.)*[A-Za-z_$][\w$]*)(\([^`]*\))?`|\{@link ([\w$.]+)/g);
  return [...code].flatMap(([, written, called, linked]) => {
    const path = (written ?? linked ?? "").split(".");
    return path.filter((name, i) => CODE_NAME.test(name) || linked || (called && i === path.length - 1));
  });
}

t.test("a name of code in a comment or a page exists in the code", async (t) => {
  const code = files("{src,plugins,scripts,test,examples,pages,bin,deploy}/**/*.{ts,tsx,js,mjs,json,yaml,html}");
  // Without this file, which has the names of others.
  const words = new Set(
    code
      .filter((file) => file !== "test/architecture.test.ts")
      .flatMap(
        (file) =>
          text(file)
            .replaceAll(COMMENT, " ")
            .match(/[A-Za-z_$][\w$]*/g) ?? [],
      ),
  );
  const named = new Map([
    ...[...SOURCES, ...PLUGINS].map((file) => [file, (text(file).match(COMMENT) ?? []).join("\n")] as const),
    ...files("docs/**/*.md").map((file) => [file, text(file).replaceAll(/^```[\s\S]*?^```/gm, "")] as const),
  ]);
  const unknown = [...named].flatMap(([file, sentences]) =>
    namesOfCode(sentences)
      .filter((name) => !words.has(name) && !(name in globalThis))
      .map((name) => ({ file, name })),
  );
  t.same(
    unknown.filter(({ name }) => !FOREIGN_NAMES.includes(name)).map(({ file, name }) => `${file} names ${name}`),
    [],
  );
  t.same(
    FOREIGN_NAMES.filter((foreign) => !unknown.some(({ name }) => name === foreign)),
    [],
    "left out, and missing in the list",
  );
});

t.test("CONTRIBUTING.md explains the letters that mark the source of a fact", async (t) => {
  const explained = [...text("CONTRIBUTING.md").matchAll(/`\[([A-Z])\]`/g)].map(([, letter]) => letter);
  const used = [...SOURCES, ...PLUGINS].flatMap((file) =>
    (text(file).match(COMMENT) ?? []).flatMap((comment) => [...comment.matchAll(/\[([A-Z])(?:: [^\]]+)?\]/g)]),
  );
  t.same([...new Set(used.map(([, letter]) => letter))].sort(), explained.sort());
});

t.test("no file is longer than its limit", async (t) => {
  const long = [...SOURCES, ...PLUGINS, ...EXAMPLES].filter(
    (file) => text(file).split("\n").length > MAX_FILE_LINES + 1,
  );
  t.same(long, []);
});
