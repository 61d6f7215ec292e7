import { existsSync } from "node:fs";
import { join } from "node:path";
import t, { type Test } from "tap";
import { loadConfig } from "../src/config/load.ts";
import { dryStartPlugins } from "../src/dry-start.ts";
import { findExtensions } from "../src/loaded-config.ts";
import type { PluginProblem } from "../src/loader/problems.ts";
import { folder } from "./loader/folder.ts";

const YAML = `providers: { demo: { url: "demo:" }, off: { url: "https://off.test/v1", credential: $GONE, protocol: openai-chat } }
models: { echo: { targets: [demo:echo] }, gone: { targets: [off:x] } }
`;

async function rehearsed(t: Test, files: Record<string, string>): Promise<{ problems: PluginProblem[]; own: string }> {
  const own = folder(t, files);
  const known = await findExtensions(own);
  const problems = await dryStartPlugins(await loadConfig(join(own, "gateway.yaml"), known, {}), known);
  return { problems: problems.map((problem) => ({ ...problem, file: problem.file.slice(own.length + 1) })), own };
}

t.test("the built-in plugins of a valid file are constructed, and nothing stays open", async (t) => {
  const { problems, own } = await rehearsed(t, { "gateway.yaml": YAML });
  t.same(problems, []);
  t.notOk(existsSync(join(own, "data")), "no store is created");
});

t.test("every plugin is constructed and dry-started: all errors are reported at once", async (t) => {
  const { problems } = await rehearsed(t, {
    "gateway.yaml": `${YAML}plugins: { a: { from: ./a.ts }, b: { from: ./b.ts }, c: { from: ./c.ts }, d: { from: ./d.ts } }\npaths: { /mine: { serve: d } }\n`,
    "a.ts": 'export default class A { constructor() { throw new Error("no a"); } access() {} }',
    "b.ts":
      'import type { Keys } from "model-gateway/store";\nexport default class B { constructor(keys: Keys) {} access() {} }',
    "c.ts": 'export default class C { start({ dry }: { dry: boolean }) { if (dry) throw new Error("no c"); } }',
    "d.ts": "export default class D { access() {} }",
  });
  t.match(problems, [
    {
      file: "a.ts",
      line: 1,
      message: /^the constructor of class A threw: no a; fix it or its options \(.*\), or take it out of chains$/,
    },
    { file: "b.ts", line: 2, message: /class B is not @injectable\(\)/ },
    {
      file: "c.ts",
      line: 1,
      message:
        /^start\(\) of class C threw: no c; fix it or its options \(.*gateway\.yaml:3:54\), or take it out of chains$/,
    },
    { file: "d.ts", message: "cannot serve /mine: class D has no method serve()" },
  ]);
  t.equal(problems.length, 4);
});

t.test("two plugins that register the same token of tsyringe are reported", async (t) => {
  const text = (value: number) =>
    `import { container } from "tsyringe";\ncontainer.register("rates", { useValue: ${value} });\nexport default class P { access() {} }`;
  const { problems } = await rehearsed(t, {
    "gateway.yaml": `${YAML}plugins: { a: { from: ./a.ts }, b: { from: ./b.ts } }\n`,
    "a.ts": text(1),
    "b.ts": text(2),
  });
  t.match(problems, [{ file: /^[ab]\.ts$/, message: /it registers the token "rates" of tsyringe/ }]);
});

t.test("a plugin's exception is reported without secrets of its options, with its files and servers", async (t) => {
  const dsn = "postgres://me:p4ssw0rd-of-db@db/x";
  const more = "folder: ./records/of/all, server: 'http://collector:4318', token: a-token-1234, zone: UTC";
  const { problems } = await rehearsed(t, {
    "gateway.yaml": `${YAML}plugins: { a: { from: ./a.ts, dsn: '${dsn}', ${more}, headers: { x: seventeen-letters }, seal: '$file:./secret' } }\n`,
    secret: "the-secret-of-a-file",
    "a.ts": `import { Options } from "model-gateway";
import { inject, injectable } from "tsyringe";
import { z } from "zod";
@injectable()
export default class A {
  static options = z.strictObject({}).catchall(z.unknown());
  constructor(@inject(Options) private readonly options: object) {}
  start() { throw new Error("bad " + JSON.stringify(this.options) + encodeURIComponent(${JSON.stringify(dsn)})); }
  access() {}
}`,
  });
  const [{ message = "" } = {}] = problems;
  t.match(message, /^start\(\) of class A threw: bad /);
  for (const secret of ["p4ssw0rd", "a-token-1234", "seventeen", "the-secret-of"]) t.notMatch(message, secret);
  for (const told of ["./records/of/all", "http://collector:4318", "UTC", "$file:./secret"])
    t.ok(message.includes(told), `${told} in ${message}`);
});

t.test("whatever a dry start opened is closed", async (t) => {
  const { problems } = await rehearsed(t, {
    "gateway.yaml": `${YAML}plugins: { a: { from: ./a.ts } }\n`,
    "a.ts":
      "export default class A { open = false; start() { this.open = true; } close() { throw new Error('open ' + this.open); } }",
  });
  t.match(problems, [{ message: /^close\(\) of class A threw: open true; fix it or its options \(/ }]);
});
