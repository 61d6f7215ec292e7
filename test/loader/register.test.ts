import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
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

t.test("classes and registries are the host's, whatever lies beside a plugin", async (t) => {
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

t.test("an error names the line as it was written, a syntax error shows it", async (t) => {
  const thrown = run(
    t,
    'interface Unused { a: string }\n\ntype Also = Unused;\nthrow new Error("here");\nexport type { Also };',
  );
  t.match(thrown.stderr, /main\.ts:4:7/);
  const broken = run(t, "const a: string = ;\n");
  t.match(broken.stderr, /SyntaxError in .*main\.ts/);
  t.match(broken.stderr, /const a: string = ;/);
});

t.test("a Node that is too old is told so, and what to do", async (t) => {
  const old = ["/usr/local/bin/node", "/usr/bin/node"].find(
    (node) => existsSync(node) && Number(/v(\d+)/.exec(spawnSync(node, ["-v"], { encoding: "utf8" }).stdout)?.[1]) < 22,
  );
  if (!old) {
    t.comment("no old Node on this machine");
    return;
  }
  const { stderr, status } = run(t, "", old);
  t.equal(status, 1);
  t.match(stderr, /needs Node\.js 24.*npm ci/s);
});
