import { spawnSync } from "node:child_process";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import t, { type Test } from "tap";
import { folder } from "./folder.ts";

const REGISTER = fileURLToPath(new URL("../../src/loader/register.js", import.meta.url));

function run(t: Test, text: string, node = process.execPath) {
  const folder = mkdtempSync(join(tmpdir(), "gateway-register-"));
  t.teardown(() => rmSync(folder, { recursive: true }));
  const file = join(folder, "main.ts");
  writeFileSync(file, text);
  const { stdout, stderr, status } = spawnSync(node, ["--import", pathToFileURL(REGISTER).href, file], {
    encoding: "utf8",
    env: { PATH: process.env["PATH"] },
  });
  return { stdout, stderr, status };
}

t.test(
  "TypeScript outside the checkout runs as written, with decorators, metadata and the host's own classes",
  async (t) => {
    const { stdout, stderr } = run(
      t,
      `import { inject, injectable, container } from "tsyringe";
import { Options, GatewayError } from "model-gateway";
enum Kind { A = 3 }
class Part { name = "part"; }
@injectable()
class Whole { constructor(private readonly part: Part, @inject(Options) readonly options: { n: number }) {} say() { return this.part.name + this.options.n; } }
container.register(Options, { useValue: { n: Kind.A } });
console.log(container.resolve(Whole).say(), new GatewayError("internal") instanceof GatewayError);`,
    );
    t.equal(stdout, "part3 true\n", stderr);
  },
);

t.test("classes and registries are the host's, whatever is installed beside a plugin", async (t) => {
  const own = folder(t, {
    "node_modules/tsyringe/package.json": '{ "main": "index.js" }',
    "node_modules/tsyringe/index.js": 'throw new Error("another copy");',
    "node_modules/model-gateway/package.json": '{ "main": "index.js" }',
    "node_modules/model-gateway/index.js": 'throw new Error("another copy");',
    "main.mts": 'import "tsyringe"; import { GatewayError } from "model-gateway"; console.log(GatewayError.name);',
  });
  const { stdout, stderr } = spawnSync(
    process.execPath,
    ["--import", pathToFileURL(REGISTER).href, join(own, "main.mts")],
    {
      encoding: "utf8",
    },
  );
  t.equal(stdout, "GatewayError\n", stderr);
});

t.test("an error names the line of the source, a syntax error shows it", async (t) => {
  const thrown = run(
    t,
    'interface Unused { a: string }\n\ntype Also = Unused;\nthrow new Error("here");\nexport type { Also };',
  );
  t.match(thrown.stderr, /main\.ts:4:7/);
  const broken = run(t, "const a: string = ;\n");
  t.match(broken.stderr, /SyntaxError in .*main\.ts/);
  t.match(broken.stderr, /const a: string = ;/);
});

/** A gateway's folder with nothing but its loader and a program. */
function installed(t: Test) {
  const root = mkdtempSync(join(tmpdir(), "gateway-register-"));
  t.teardown(() => rmSync(root, { recursive: true }));
  mkdirSync(join(root, "src/loader"), { recursive: true });
  mkdirSync(join(root, "node_modules"));
  const register = join(root, "src/loader/register.js");
  copyFileSync(REGISTER, register);
  for (const name of ["oxc-transform", "reflect-metadata"])
    symlinkSync(
      fileURLToPath(new URL(`../../node_modules/${name}`, import.meta.url)),
      join(root, "node_modules", name),
    );
  const program = (text: string) => {
    writeFileSync(join(root, "src/main.ts"), text);
    const args = ["--import", pathToFileURL(register).href, join(root, "src/main.ts")];
    return spawnSync(process.execPath, args, { encoding: "utf8" });
  };
  return { program, cache: join(root, "node_modules/.cache") };
}

t.test(
  "the compiled JavaScript of an installed gateway is cached, and compiled again when the TypeScript has changed",
  async (t) => {
    const { program, cache } = installed(t);
    const first = "interface Unused { a: string }\n\nconsole.log(1 as number);\nthrow new Error('here');\n";
    for (const when of ["made", "kept"]) {
      const { stdout, stderr } = program(first);
      t.equal(stdout, "1\n", when);
      t.match(stderr, /main\.ts:4:7/, `${when}: an error names the line of the source`);
      t.equal(readdirSync(join(cache, "javascript")).length, 2, "the file and its map");
    }
    t.equal(program("console.log(2 as number);\n").stdout, "2\n");
    t.equal(readdirSync(join(cache, "javascript")).length, 2, "in place of the previous one");
  },
);

t.test("a damaged cache entry is compiled again", async (t) => {
  const { program, cache } = installed(t);
  const text = "const a: number = 41;\nconsole.log(a + 1);\n";
  t.equal(program(text).stdout, "42\n");
  const [file = ""] = readdirSync(join(cache, "javascript")).filter((name) => !name.endsWith(".map"));
  const place = join(cache, "javascript", file);
  const kept = readFileSync(place, "utf8");
  for (const damaged of [kept.replace("41", "40"), kept.replace("console", "con\0sole"), kept.slice(0, 50), "", "\n"]) {
    writeFileSync(place, damaged);
    const { stdout, stderr } = program(text);
    t.equal(stdout, "42\n", stderr);
    t.equal(readFileSync(place, "utf8"), kept);
  }
});

t.test("without a writable cache it runs as well", async (t) => {
  const { program, cache } = installed(t);
  writeFileSync(cache, "no folder");
  const { stdout, stderr } = program("type A = string;\nconsole.log(3 as number);\nthrow new Error('here');\n");
  t.equal(stdout, "3\n");
  t.match(stderr, /main\.ts:3:7/);
});

t.test("a Node that is too old is reported, with advice", async (t) => {
  const old = ["/usr/local/bin/node", "/usr/bin/node"].find(
    (node) => existsSync(node) && Number(/v(\d+)/.exec(spawnSync(node, ["-v"], { encoding: "utf8" }).stdout)?.[1]) < 26,
  );
  if (!old) {
    t.comment("no old Node on this machine");
    return;
  }
  const { stderr, status } = run(t, "", old);
  t.equal(status, 1);
  t.match(stderr, /needs Node\.js 26.*npm ci/s);
});
