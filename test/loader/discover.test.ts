import { join } from "node:path";
import t from "tap";
import {
  isBuiltIn,
  loadPlugin,
  loadProtocols,
  notFoundMessage,
  ownPluginFiles,
  PLUGINS_FOLDER,
  pluginFile,
  pluginNames,
} from "../../src/loader/discover.ts";
import { triedFiles } from "../../src/loader/versions.ts";
import { folder } from "./folder.ts";

t.test("a name refers to the operator's own file first, then to a built-in one", async (t) => {
  const own = folder(t, { "plugins/usage.ts": "", "plugins/mine.ts": "", "odd/place.ts": "" });
  t.equal(pluginFile("usage", undefined, own), join(own, "plugins/usage.ts"));
  t.equal(pluginFile("auth", undefined, own), join(PLUGINS_FOLDER, "auth.ts"));
  t.equal(pluginFile("any", "./odd/place.ts", own), join(own, "odd/place.ts"));
  t.equal(pluginFile("none", undefined, own), undefined);
  t.equal(pluginFile("late", "./late.ts", own), undefined);
  t.ok(triedFiles().includes(join(own, "late.ts")), "a file that does not exist yet is watched for");
  const names = pluginNames(own);
  t.same(ownPluginFiles(own), [join(own, "plugins/mine.ts"), join(own, "plugins/usage.ts")]);
  t.same(ownPluginFiles(folder(t, { plugins: "a file" })), []);
  t.ok(names.includes("mine") && names.includes("scrub"));
  t.equal(names.filter((name) => name === "usage").length, 1);
});

t.test("a plugin's file may be TypeScript or JavaScript", async (t) => {
  const files = {
    "plugins/a.mts": "",
    "plugins/b.js": "",
    "plugins/c.mjs": "",
    "plugins/d.d.ts": "",
    "plugins/e.json": "",
  };
  const own = folder(t, files);
  for (const file of ["a.mts", "b.js", "c.mjs"])
    t.equal(pluginFile(file.slice(0, 1), undefined, own), join(own, "plugins", file));
  t.equal(pluginFile("d", undefined, own), undefined);
  t.same(
    pluginNames(own).filter((name) => /^[a-e](\.d)?$/.test(name)),
    ["a", "b", "c"],
  );
});

const PACKAGE = {
  "node_modules/@team/plugin/package.json": JSON.stringify({
    type: "module",
    exports: { ".": { import: "./main.js" }, "./other": "./other.ts" },
  }),
  "node_modules/@team/plugin/main.js":
    'import { words } from "words";\nexport default class Words { static words = words; access() {} }',
  "node_modules/@team/plugin/node_modules/words/package.json": JSON.stringify({
    type: "module",
    exports: "./index.js",
  }),
  "node_modules/@team/plugin/node_modules/words/index.js": 'export const words = "its own";',
  "node_modules/@team/plugin/other.ts": "export default class Other { access(): void {} }",
  "node_modules/words/package.json": JSON.stringify({ type: "module", exports: "./index.js" }),
  "node_modules/words/index.js": 'export const words = "the folder\'s";',
};

t.test("a plugin may be an npm package, by name, with its own dependencies", async (t) => {
  const own = folder(t, PACKAGE);
  const file = pluginFile("any", "@team/plugin", own) as string;
  t.ok(file.endsWith("node_modules/@team/plugin/main.js"), file);
  t.equal(((await loadPlugin(file)) as unknown as { words: string }).words, "its own");
  const other = pluginFile("any", "@team/plugin/other", own) as string;
  t.equal((await loadPlugin(other)).name, "Other", "TypeScript in a package runs too");
  t.equal(pluginFile("any", "no-such-package", own), undefined);
  t.equal(pluginFile("any", "fs", own), undefined, "no part of Node is a plugin");
  t.throws(() => pluginFile("any", "@team/plugin/hidden", own), { code: "ERR_PACKAGE_PATH_NOT_EXPORTED" });
});

t.test("a reference without a plugin is reported with the place that was searched", async (t) => {
  const own = folder(t, {});
  t.equal(notFoundMessage("./gone.ts", own), `there is no file ${join(own, "gone.ts")}`);
  t.equal(
    notFoundMessage("@team/gone", own),
    `there is no package @team/gone in node_modules of ${own} or of a folder above it`,
  );
});

t.test("built-in plugins are distinguished from an operator's own", async (t) => {
  const files = [join(PLUGINS_FOLDER, "auth.ts"), "/own/plugins/auth.ts", join(PLUGINS_FOLDER, "own.ts")];
  t.same(files.map(isBuiltIn), [true, false, false], "also in a checkout, where they may be in the same folder");
  for (const name of pluginNames(PLUGINS_FOLDER)) t.ok(isBuiltIn(join(PLUGINS_FOLDER, `${name}.ts`)), name);
});

t.test("a missing dependency is named with the file that imports it", async (t) => {
  const own = folder(t, { "p.js": 'import "no-such-package";' });
  await t.rejects(loadPlugin(join(own, "p.js")), {
    message: /Cannot find package 'no-such-package' imported from .*p\.js/,
  });
});

t.test("every built-in plugin loads", async (t) => {
  for (const name of pluginNames(PLUGINS_FOLDER))
    t.type(await loadPlugin(join(PLUGINS_FOLDER, `${name}.ts`)), "function", name);
});

t.test("an interface that is imported as a value is refused with the fix", async (t) => {
  const own = folder(t, {
    "p.ts":
      'import { Plugin } from "model-gateway";\nexport default class P { constructor(readonly part: Plugin) {} access() {} }\nconsole.log(Plugin);',
  });
  await t.rejects(loadPlugin(join(own, "p.ts")), { name: "PluginError", message: /p\.ts.*import type/s });
});

t.test("a misspelt import is reported with the probable name, and its place", async (t) => {
  const folder = t.testdir({
    "near.ts":
      'import { GatewayErrr } from "model-gateway";\nexport default class { access() { throw new GatewayErrr("x"); } }',
    "far.ts": 'import { Injectible } from "model-gateway";\n@Injectible()\nexport default class { access() {} }',
    "store.ts": 'import { Legder } from "model-gateway";\nexport default class { access() { new Legder(); } }',
    "none.ts": 'import { Exchange } from "model-gateway";\nexport default class { access() { new Exchange(); } }',
    "own.ts": 'import { Frmae } from "./lib.ts";\nexport default class { access() { new Frmae(); } }',
    "lib.ts": "export class Frame {}",
  });
  for (const [file, told] of Object.entries({
    "near.ts": /named 'GatewayErrr', did you mean "GatewayError"\? \(/,
    "far.ts": /named 'Injectible', did you mean "injectable" from "tsyringe"\? \(/,
    "store.ts": /named 'Legder', did you mean "Ledger" from "model-gateway\/store"\? \(/,
    "none.ts": /named 'Exchange' \(an interface must be imported with `import type`\)$/,
    "own.ts": /named 'Frmae' \(/,
  }))
    await t.rejects(loadPlugin(join(folder, file)), { message: told }, file);
});

t.test("a plugin of CommonJS is refused with what plugins are", async (t) => {
  const files = {
    "package.json": '{ "type": "commonjs" }',
    "needs.js": 'require("model-gateway"); module.exports = class {};',
    "mixed.js": "export default class Mixed {}",
    "scope.mjs": 'const { injectable } = require("tsyringe"); export default class Scope {}',
  };
  const folder = t.testdir(files);
  for (const name of ["needs.js", "mixed.js", "scope.mjs"])
    await t.rejects(loadPlugin(join(folder, name)), { message: /; plugins are ES modules: write import/ }, name);
});

t.test("an option name that every plugin has in gateway.yaml cannot be a plugin's own", async (t) => {
  const text =
    'import { z } from "zod";\nexport default class P { static options = z.strictObject({ from: z.string() }); access() {} }';
  await t.rejects(loadPlugin(join(folder(t, { "p.ts": text }), "p.ts")), { message: /cannot hold "from"/ });
  const piped = text.replace("from:", "deadline:").replace("});", "}).transform((options) => options);");
  await t.rejects(loadPlugin(join(folder(t, { "p.ts": piped }), "p.ts")), { message: /cannot hold "deadline"/ });
});

t.test("a file that never finishes loading is named after a while", async (t) => {
  const file = join(
    folder(t, { "p.ts": "await new Promise(() => {});\nexport default class P { access() {} }" }),
    "p.ts",
  );
  await t.rejects(loadPlugin(file, 20), {
    name: "PluginError",
    message: `${file}: has not run to its end after 0.02 s: a top-level await?`,
  });
});

t.test("protocols are found by their folders, one of them the common dialect", async (t) => {
  const protocols = await loadProtocols();
  t.ok(protocols.length >= 7);
  t.equal(protocols.filter((protocol) => protocol.isDefault).length, 1);
  const wrong = folder(t, { "one/index.ts": 'export default { name: "other", common: true };' });
  await t.rejects(loadProtocols(wrong), { message: /name must be "one"/ });
  const none = folder(t, { "one/index.ts": 'export default { name: "one" };' });
  await t.rejects(loadProtocols(none), { message: /exactly one protocol/ });
});
