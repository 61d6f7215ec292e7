import { spawnSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import t from "tap";
import { bytesIn, MAX_INSTALLED, NODE_PACKAGE } from "../scripts/installed.ts";
import { linksIn } from "./support/links.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
/** With GATEWAY_TEST_INSTALL set npm installs the packed gateway; else the checkout's packages are linked beside it. */
const INSTALL = process.env["GATEWAY_TEST_INSTALL"] !== undefined;
const { dependencies, peerDependencies } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as Record<
  "dependencies" | "peerDependencies",
  Record<string, string>
>;
/** What npm installs with it, by its places. */
const { packages } = JSON.parse(readFileSync(join(ROOT, "package-lock.json"), "utf8")) as {
  packages: Record<string, { dev?: boolean }>;
};
/** Whoever copies a built-in plugin that needs them has installed them, and Node's types whoever compiles. */
const PEERS = Object.entries(peerDependencies).filter(([name]) => /^@(?:opentelemetry|types)\//.test(name));

/** The test runner puts a loader of its own into every Node process, which TypeScript's does not bear. */
function run(folder: string, command: string, ...args: string[]) {
  const { status, stdout, stderr } = spawnSync("env", ["-u", "NODE_OPTIONS", command, ...args], {
    cwd: folder,
    encoding: "utf8",
  });
  return { status, said: stdout + stderr };
}

/** A folder with the packed gateway in its node_modules. */
function installed(t: { teardown(act: () => unknown): unknown }): string {
  const folder = mkdtempSync(join(tmpdir(), "gateway-packed-"));
  t.teardown(() => rmSync(folder, { recursive: true }));
  const packed = run(ROOT, "npm", "pack", "--silent", "--pack-destination", folder);
  if (packed.status !== 0) throw new Error(packed.said);
  const tarball = join(folder, packed.said.trim().split("\n").at(-1) as string);
  writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
  if (INSTALL) {
    const npm = run(
      folder,
      "npm",
      "install",
      "--prefer-offline",
      "--no-audit",
      "--no-fund",
      tarball,
      ...PEERS.map((peer) => peer.join("@")),
    );
    if (npm.status !== 0) throw new Error(npm.said);
    return folder;
  }
  const place = join(folder, "node_modules/model-gateway");
  mkdirSync(place, { recursive: true });
  run(place, "tar", "-xzf", tarball, "--strip-components=1");
  for (const name of [...Object.keys(dependencies), ...PEERS.map(([name]) => name)]) {
    mkdirSync(dirname(join(folder, "node_modules", name)), { recursive: true });
    symlinkSync(join(ROOT, "node_modules", name), join(folder, "node_modules", name));
  }
  return folder;
}

/** The TypeScript of a page, block by block. */
const codeIn = (page: string): string[] =>
  [...readFileSync(join(ROOT, page), "utf8").matchAll(/^```ts\n([\s\S]*?)^```/gm)].map(([, code = ""]) => code);

/** An import of every name that a policy may import from an entry point. */
function everything(entry: string, specifier: string): string {
  const names = [...readFileSync(join(ROOT, entry), "utf8").matchAll(/^export (?:type )?\{([^}]*)\}/gm)].map(
    ([, list = ""]) => list.trim().replace(/,$/, ""),
  );
  return `import { ${names.join(", ").replaceAll("type ", "")} } from "${specifier}";\n`;
}

/** Whole files as they stand; parts of a class in one, with every name that the gateway exports. */
function snippet(code: string): string {
  if (/^import /m.test(code)) return code;
  const names = everything("src/index.ts", "model-gateway") + everything("src/store.ts", "model-gateway/store");
  return `${names}export default class {\n${code}}\n`;
}

const folder = installed(t);

/**
 * Pictures, decisions, files for containers and dashboards, and pages about work on the repository stay there, and those that are
 * made from the declarations in types/, which are packed.
 */
const REPOSITORY_ONLY =
  /\.png$|(?:^|\/)(?:decisions\/|deploy\/(?:compose|grafana|helm|kubernetes)\/|(?:admin-api|architecture|fidelity|money|performance|reliability|CONTRIBUTING|plugin-api|protocol-api)\.md$)/;

t.test("every link of a packed page leads to a packed file", async (t) => {
  const place = join(folder, "node_modules/model-gateway");
  const pages = globSync(["*.md", "{docs,examples,plugins,deploy}/**/*.md"], { cwd: place });
  t.ok(pages.includes("README.md") && pages.includes("docs/plugins.md"));
  const dead = pages.flatMap((page) =>
    linksIn(page, readFileSync(join(place, page), "utf8"))
      .filter((target) => !REPOSITORY_ONLY.test(target) && !existsSync(join(place, target)))
      .map((target) => `${page}: ${target}`),
  );
  t.same(dead, []);
});

t.test("the package has the declarations that a public entry point imports, and no others", async (t) => {
  const types = join(folder, "node_modules/model-gateway/types");
  const packed = globSync("**/*.d.ts", { cwd: types });
  const asked = packed.flatMap((file) =>
    [...readFileSync(join(types, file), "utf8").matchAll(/"(\.[^"]+)\.ts"/g)].map(([, to]) =>
      join(dirname(file), `${to}.d.ts`),
    ),
  );
  const entries = ["index", "protocol", "store", "testing"].map((name) => `${name}.d.ts`);
  t.same(packed.toSorted(), [...new Set([...entries, ...asked])].toSorted());
});

t.test("editors show what the methods of an exchange and their parameters are", (t) => {
  const types = join(folder, "node_modules/model-gateway/types/core");
  for (const [file, member] of [
    ["exchange", "replaceText("],
    ["text-replacer", "maxLength: number"],
    ["texts", "readonly piece?"],
  ] as const) {
    const before = readFileSync(join(types, `${file}.d.ts`), "utf8").split(`    ${member}`)[0] ?? "";
    t.match(before, /\*\/\n$/, member);
  }
  t.end();
});

t.test("without Node itself, what an operator installs is within 20 MB", async (t) => {
  const places = Object.entries(packages).flatMap(([place, { dev }]) =>
    // Those of other platforms are not here.
    place === "" || dev || NODE_PACKAGE.test(basename(place)) || !existsSync(join(ROOT, place)) ? [] : [place],
  );
  t.ok(places.includes("node_modules/zod") && places.length > Object.keys(dependencies).length);
  const seen = new Set<number>();
  const bytes = (place: string): number => bytesIn(place, seen);
  const own = bytes(join(folder, "node_modules/model-gateway"));
  const all = places.reduce((sum, place) => sum + bytes(join(ROOT, place)), own);
  t.ok(all <= MAX_INSTALLED, `${all} bytes`);
});

t.test("plugins outside the checkout compile against the packed gateway, and run in it", async (t) => {
  for (const name of ["examples", "plugins"]) cpSync(join(ROOT, name), join(folder, name), { recursive: true });
  const bin = join(folder, "node_modules/model-gateway/bin/model-gateway");
  t.match(run(folder, bin, "plugin", "new", "my-stamp"), { status: 0 });
  const pages = ["README.md", "docs/plugins.md"].flatMap(codeIn);
  t.ok(pages.length >= 3, "the pages' code is found");
  mkdirSync(join(folder, "pages"));
  for (const [i, code] of pages.entries()) writeFileSync(join(folder, `pages/${i}.ts`), snippet(code));
  // The guide's settings; TypeScript reports a member that it does not know.
  const guide = readFileSync(join(ROOT, "docs/plugins.md"), "utf8");
  const { compilerOptions } = JSON.parse(/```json\n([\s\S]*?)```/.exec(guide)?.[1] ?? "");
  writeFileSync(
    join(folder, "tsconfig.json"),
    JSON.stringify({ compilerOptions, include: ["examples", "plugins", "pages", "test"] }),
  );
  const compiled = run(folder, join(ROOT, "node_modules/.bin/tsc"), "-p", ".");
  t.equal(compiled.said, "");
  t.equal(compiled.status, 0);

  // Copies of the built-in plugins come along: they are the operator's own here, and count first.
  writeFileSync(
    join(folder, "gateway.yaml"),
    `providers: { demo: { url: "demo:" } }
models: { echo: { targets: [demo:echo] } }
plugins: { stamp: { from: ./examples/stamp.ts, text: here }, hours: { from: ./examples/opening-hours.ts, open: "00:00", close: "24:00" } }
`,
  );
  const checked = run(folder, bin, "check");
  t.match(checked.said, /gateway\.yaml:3:\d+ error: expected a time/, "the check knows the plugins' options");
  writeFileSync(
    join(folder, "gateway.yaml"),
    readFileSync(join(folder, "gateway.yaml"), "utf8").replace("24:00", "23:59"),
  );
  t.match(run(folder, bin, "check"), { status: 0, said: /gateway\.yaml: ok/ });
  const tested = run(folder, bin, "plugin", "test");
  t.equal(tested.status, 0, tested.said);
  t.match(tested.said, /pass 8\n/, "the plugin's own test runs with the packed gateway");
  // Any other runner needs what makes Node read TypeScript with decorators, and no more.
  const plain = run(folder, process.execPath, "--import", "model-gateway/register", "test/my-stamp.test.ts");
  t.equal(plain.status, 0, plain.said);
  t.match(run(folder, bin, "keys", "list"), { said: /create one with: npx model-gateway keys create/i });
});

t.test("the guide's first plugin is written, tested and served as the guide describes", async (t) => {
  const guide = readFileSync(join(ROOT, "docs/plugins.md"), "utf8");
  const block = (kind: string): string => new RegExp(`\`\`\`${kind}\\n([\\s\\S]*?)\`\`\``).exec(guide)?.[1] ?? "";
  const bin = join(folder, "node_modules/model-gateway/bin/model-gateway");
  const own = join(folder, "first");
  mkdirSync(own);
  const made = run(own, bin, "plugin", "new", "short-only");
  t.equal(made.status, 0, made.said);
  writeFileSync(join(own, "plugins/short-only.ts"), block("ts"));
  const file = join(own, "test/short-only.test.ts");
  const written = readFileSync(file, "utf8");
  const asked = written
    .replace('{ options: { text: "tested" } }', "{ options: { characters: 10 } }")
    .replace(/const answer = [\s\S]*?\n {4}\}\);/, `${block("js")}    });`);
  t.match(asked, /characters: 10[\s\S]*long\.status, 413/, "the test is the guide's");
  writeFileSync(file, asked);
  const tested = run(own, bin, "plugin", "test");
  t.match(tested, { status: 0, said: /pass 8\n/ });
  writeFileSync(join(own, "gateway.yaml"), block("yaml"));
  t.match(run(own, bin, "check"), { status: 0, said: /gateway\.yaml: ok/ });
});
