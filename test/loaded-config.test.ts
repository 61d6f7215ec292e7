import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { findExtensions, loadWithExtensions } from "../src/loaded-config.ts";

const folder = t.testdir({
  plugins: { "own.ts": "export default class Own { access() {} acess() {} }\n" },
  "gateway.yaml": `providers: { demo: { url: "demo:" } }
models: { echo: { targets: [demo:echo] } }
plugins: { own: {} }
chains: { llm: [sse, auth, own, models, rewrite, usage] }
`,
});

t.test("names are those of the protocols, of the folder's plugins and of the built-in ones", async (t) => {
  const { protocols, protocolList, plugins, classes } = await findExtensions(folder);
  t.ok(protocols.has("openai-chat"));
  t.equal(protocols.size, protocolList.length);
  t.equal(plugins[0], "own", "the operator's own first");
  t.ok(plugins.includes("auth"));
  t.equal(classes.size, 0, "no plugin is loaded before a file names it");
});

t.test("a plugin is loaded when it is requested, and its phases and problems are reported", async (t) => {
  const { plugin, classes } = await findExtensions(folder);
  t.match(await plugin("own", undefined, folder), { phases: ["access"], builtIn: false });
  t.match(classes.get("own"), { file: join(folder, "plugins/own.ts") });
  t.match(await plugin("auth", undefined, folder), { builtIn: true });
  t.equal(await plugin("none", undefined, folder), undefined);
  await t.rejects(async () => plugin("none", "./none.ts", folder), { message: /there is no file .*none\.ts/ });
});

t.test("a file is read with the names of its own folder", async (t) => {
  const { config, extensions } = await loadWithExtensions({ file: join(folder, "gateway.yaml"), env: {} });
  t.match(config.models, [{ id: "echo" }]);
  t.ok(extensions.classes.has("own"));
  await t.rejects(loadWithExtensions({ file: join(folder, "gateway.yaml"), env: {}, text: "provders: {}" }), {
    message: /did you mean "providers"/,
  });
});

t.test(
  "a file that has changed since it was loaded, or may have secrets that have, is not still on disk",
  async (t) => {
    const folder = t.testdir({ token: "q8Zr-not-for-anybody-77" });
    const file = join(folder, "gateway.yaml");
    const text = 'providers: { demo: { url: "demo:" } }\nmodels: { echo: { targets: [demo:echo] } }\n';
    writeFileSync(file, text);
    const loaded = await loadWithExtensions({ file, env: {} });
    t.ok(loaded.isStillOnDisk());
    writeFileSync(file, text.replaceAll("echo", "slow"));
    t.notOk(loaded.isStillOnDisk());
    rmSync(file);
    t.notOk(loaded.isStillOnDisk());
    writeFileSync(file, `${text}envelopes: { key: $file:token }\n`);
    t.notOk((await loadWithExtensions({ file, env: {} })).isStillOnDisk());
  },
);
