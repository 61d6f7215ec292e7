import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { codeDigest, codeFiles, hasNewerPackage, importCode } from "../../src/loader/versions.ts";
import { folder } from "./folder.ts";

const numbered = async (file: string) => ((await importCode(file)) as { default: number }).default;

t.test("code is imported again when it, or a file it imports from beside it, has changed, and only then", async (t) => {
  const counting = "globalThis.loads = (globalThis.loads ?? 0) + 1;\n";
  const own = folder(t, {
    "a.ts": `${counting}import { n } from "./below/b.ts";\nexport default n + 1;`,
    "below/b.ts": "import { m } from './c.ts';\nexport const n = m * 10;",
    "below/c.ts": "export const m = 1;",
  });
  const file = join(own, "a.ts");
  const loads = () => (globalThis as { loads?: number }).loads;
  t.equal(await numbered(file), 11);
  const before = codeDigest(file);
  t.same(
    codeFiles(file).map((each) => each.slice(own.length + 1)),
    ["a.ts", "below/b.ts", "below/c.ts"],
  );
  t.equal(await numbered(file), 11);
  t.equal(loads(), 1);
  writeFileSync(join(own, "below/c.ts"), "export const m = 2;");
  t.not(codeDigest(file), before);
  t.equal(await numbered(file), 21);
  t.equal(await numbered(file), 21);
  t.equal(loads(), 2);
  writeFileSync(join(own, "below/c.ts"), "export const m = 1;");
  t.equal(await numbered(file), 11, "an earlier module is used unchanged");
  t.equal(loads(), 2);
});

t.test("what code imports while it runs is imported once, and again only by code that is imported again", async (t) => {
  const own = folder(t, {
    "a.ts": "export default { later: async () => (await import('./below/b.ts')).default };",
    "other.ts": "export default { later: async () => (await import('./below/b.ts')).default };",
    "below/b.ts": "import { n } from './c.ts';\nexport default { n };",
    "below/c.ts": "export const n = 1;",
  });
  type Later = { default: { later(): Promise<{ n: number }> } };
  const imported = async (name: string) => ((await importCode(join(own, name))) as Later).default;
  const [code, other] = [await imported("a.ts"), await imported("other.ts")];
  const digest = codeDigest(join(own, "a.ts"));
  const found = await code.later();
  t.equal(await code.later(), found);
  t.equal(await other.later(), found, "also by other code");
  t.equal(await imported("a.ts"), code, "nothing has changed");
  t.equal(codeDigest(join(own, "a.ts")), digest);
  t.match(codeFiles(join(own, "a.ts")), [/a\.ts$/, /b\.ts$/, /c\.ts$/]);
  writeFileSync(join(own, "below/c.ts"), "export const n = 2;");
  t.not(codeDigest(join(own, "a.ts")), digest);
  t.equal(await code.later(), found, "what runs stays as it was");
  const changed = await imported("a.ts");
  t.same(await changed.later(), { n: 2 });
  t.equal(await (await imported("other.ts")).later(), await changed.later());
  t.equal(await code.later(), found);
});

t.test("a changed file of CommonJS is read again too, also one that another requires", async (t) => {
  const own = folder(t, {
    "a.ts": 'import b from "./b.cjs";\nexport default b.n;',
    "b.cjs": 'exports.n = require("./c.cjs") * 10;',
    "c.cjs": "module.exports = 1;",
  });
  const file = join(own, "a.ts");
  t.equal(await numbered(file), 10);
  writeFileSync(join(own, "b.cjs"), 'exports.n = require("./c.cjs") * 100;');
  t.equal(await numbered(file), 100);
  writeFileSync(join(own, "c.cjs"), "module.exports = 2;");
  t.equal(await numbered(file), 200);
});

t.test("code that never finishes loading delays the next import until the timeout, which then begins", async (t) => {
  const own = folder(t, { "never.ts": "await new Promise(() => {});", "next.ts": "export default 7;" });
  const [never, next] = ["never.ts", "next.ts"].map((name) => importCode(join(own, name), 400));
  await t.rejects(never as Promise<unknown>, { message: "has not run to its end after 0.4 s: a top-level await?" });
  t.same({ ...((await next) as object) }, { default: 7 }, "it is not late, though it was queued as early");
});

t.test("a module that two plugins import is loaded once, and once for each version", async (t) => {
  const own = folder(t, {
    "one.ts": "import { shared } from './shared.ts';\nexport default shared;",
    "two.ts": "import { shared } from './shared.ts';\nexport default shared;",
    "shared.ts": "export const shared = { n: 1 };",
  });
  const both = () => Promise.all(["one.ts", "two.ts"].map((name) => importCode(join(own, name))));
  const [one, two] = (await both()) as { default: object }[];
  t.equal(one?.default, two?.default);
  writeFileSync(join(own, "shared.ts"), "export const shared = { n: 2 };");
  const [third, fourth] = (await both()) as { default: object }[];
  t.same(third?.default, { n: 2 });
  t.equal(third?.default, fourth?.default);
});

t.test("a failed import is tried again, also where only its surroundings have changed", async (t) => {
  const own = folder(t, { "a.ts": "import './missing.ts';\nexport default 1;" });
  const file = join(own, "a.ts");
  await t.rejects(importCode(file));
  await t.rejects(importCode(file));
  writeFileSync(join(own, "missing.ts"), "");
  t.equal(await numbered(file), 1);
  writeFileSync(file, "export default {");
  await t.rejects(importCode(file));
  writeFileSync(file, "export default 2;");
  t.equal(await numbered(file), 2);
});

t.test("a package is imported once, and a change of it waits for the next start", async (t) => {
  const own = folder(t, {
    "node_modules/@team/pack/package.json": '{ "type": "module", "version": "1.0.0" }',
    "node_modules/@team/pack/main.js": "export default 1;",
  });
  const file = join(own, "node_modules/@team/pack/main.js");
  t.equal(await numbered(file), 1);
  const before = codeDigest(file);
  t.notOk(hasNewerPackage(file));
  for (const [name, changed] of [
    ["main.js", "export default 2;"],
    ["package.json", '{ "type": "module", "version": "1.0.1" }'],
  ] as const) {
    const path = join(own, "node_modules/@team/pack", name);
    const old = readFileSync(path, "utf8");
    writeFileSync(path, changed);
    t.ok(hasNewerPackage(file), name);
    t.equal(codeDigest(file), before, "what is loaded is the same");
    t.equal(await numbered(file), 1);
    writeFileSync(path, old);
    t.notOk(hasNewerPackage(file));
  }
});
