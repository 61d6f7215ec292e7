import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import t, { type Test } from "tap";
import { BUILT_IN, loadPlugin, loadProtocols, pluginFile, pluginNames } from "../../src/loader/discover.ts";

function folder(t: Test, files: Record<string, string>): string {
  const made = mkdtempSync(join(tmpdir(), "gateway-plugins-"));
  t.teardown(() => rmSync(made, { recursive: true }));
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(join(made, name, ".."), { recursive: true });
    writeFileSync(join(made, name), text);
  }
  return made;
}

t.test("a name is the operator's own file first, then a built-in one", async (t) => {
  const own = folder(t, { "plugins/usage.ts": "", "plugins/mine.ts": "", "odd/place.ts": "" });
  t.equal(pluginFile("usage", undefined, own), join(own, "plugins/usage.ts"));
  t.equal(pluginFile("auth", undefined, own), join(BUILT_IN, "auth.ts"));
  t.equal(pluginFile("any", "./odd/place.ts", own), join(own, "odd/place.ts"));
  t.equal(pluginFile("none", undefined, own), undefined);
  const names = pluginNames(own);
  t.ok(names.includes("mine") && names.includes("scrub"));
  t.equal(names.filter((name) => name === "usage").length, 1);
});

t.test("every built-in plugin loads", async (t) => {
  for (const name of pluginNames(BUILT_IN)) t.type(await loadPlugin(join(BUILT_IN, `${name}.ts`)), "function", name);
});

t.test("an interface that is imported as a value is refused with the way to mend it", async (t) => {
  const own = folder(t, {
    "p.ts":
      'import { Plugin } from "model-gateway";\nexport default class P { constructor(readonly part: Plugin) {} access() {} }\nconsole.log(Plugin);',
  });
  await t.rejects(loadPlugin(join(own, "p.ts")), { name: "PluginError", message: /p\.ts.*import type/s });
});

t.test("protocols are found by their folders, one of them the common dialect", async (t) => {
  const protocols = await loadProtocols();
  t.ok(protocols.length >= 7);
  t.equal(protocols.filter((protocol) => protocol.common).length, 1);
  const wrong = folder(t, { "one/index.ts": 'export default { name: "other", common: true };' });
  await t.rejects(loadProtocols(wrong), { message: /name must be "one"/ });
  const none = folder(t, { "one/index.ts": 'export default { name: "one" };' });
  await t.rejects(loadProtocols(none), { message: /exactly one protocol/ });
});
