import { join } from "node:path";
import t, { type Test } from "tap";
import { compareConfigs, redactedSettings, restartSections } from "../../src/config/changes.ts";
import { loadConfig } from "../../src/config/load.ts";
import { findExtensions } from "../../src/loaded-config.ts";
import { folder } from "../loader/folder.ts";

const YAML = `listen: 127.0.0.1:8080
providers: { p: { url: "http://127.0.0.1:1/v1", protocol: openai-chat, credential: $SECRET } }
models: { m: { targets: [p:v], context: 1k }, file: { targets: [p:w] } }
keys: { ci: { key: $KEY } }
`;
const PLUGIN = `import { z } from "zod";
export default class Some {
  static options = z.strictObject({ list: z.array(z.string()), one: z.string(), at: z.number() });
  access() {}
}
`;
const ENV = { SECRET: "one-secret-of-the-provider", KEY: "a-key-of-the-gateway-0123" };

async function config(t: Test, yaml: string, env: NodeJS.ProcessEnv = ENV) {
  const own = folder(t, { "gateway.yaml": yaml });
  return loadConfig(join(own, "gateway.yaml"), await findExtensions(own), env, "/folder");
}

t.test("equal files have no differences, whatever the order of their entries", async (t) => {
  t.same(compareConfigs(await config(t, YAML), await config(t, `# a comment\n\n${YAML}`)), []);
});

t.test("each change has its path, and the previous value", async (t) => {
  const after = YAML.replace("1k", "2k").replace(", file: { targets: [p:w] }", "").replace("8080", "8081");
  const changes = compareConfigs(await config(t, YAML), await config(t, after));
  t.same(
    changes.filter(({ path }) => !path.startsWith("models.file.")),
    [
      { path: "listen", before: "127.0.0.1:8080", after: "127.0.0.1:8081" },
      { path: "models.m.context", before: "1k", after: "2k" },
    ],
  );
  t.ok(changes.some(({ path, after }) => path === "models.file.targets.0.to" && after === undefined));
  t.same(restartSections(changes), ["listen"]);
});

t.test("another secret is a change, and is not shown", async (t) => {
  const env = { SECRET: "two-secret-of-the-provider", KEY: "b-key-of-the-gateway-0123" };
  const before = await config(t, YAML);
  const changes = compareConfigs(before, await config(t, YAML, env));
  t.same(changes, [
    { path: "providers.p.credential", before: "SECRET", after: "SECRET (its value has changed)" },
    { path: "keys.ci.key", before: "a secret", after: "a secret (its value has changed)" },
  ]);
  const shown = redactedSettings(before);
  t.equal(shown["models.m.context"], "1k");
  t.notMatch(JSON.stringify(shown), /secret-of|key-of|[0-9a-f]{64}/);
});

t.test("an address with a password is shown without it", async (t) => {
  const at = (limits: string) => config(t, `${YAML}store: { limits: "${limits}" }\n`);
  const changes = compareConfigs(await at("redis://u:one-pass@h/1"), await at("redis://u:other-pass@h/1"));
  t.same(changes, [{ path: "store.limits", before: "redis://h/1", after: "redis://h/1 (its value has changed)" }]);
  t.same(restartSections(changes), ["store"]);
});

t.test("changed code of a plugin is a change, although the file is the same", async (t) => {
  const same = await config(t, YAML);
  const code = { before: new Map([["auth", "1"]]), after: new Map([["auth", "2"]]) };
  t.same(compareConfigs(same, same, code), [{ path: "plugins.auth (code)", before: "1", after: "2" }]);
});

t.test("addresses of alerts and options of plugins are not shown", async (t) => {
  const yaml = `${YAML}alerts: { webhook: "https://hooks.test/secret-of-the-webhook", repeat: 2h }
plugins: { some: { from: ./some.ts, list: [secret-of-a-list], one: secret-of-a-text, at: 5, deadline: 2s } }
chains: { llm: [sse, auth, scrub, models, limits, rewrite, usage, some] }\n`;
  const own = folder(t, { "gateway.yaml": yaml, "some.ts": PLUGIN });
  const shown = redactedSettings(await loadConfig(join(own, "gateway.yaml"), await findExtensions(own), ENV, own));
  t.notMatch(JSON.stringify(shown), /secret-of/);
  t.match(shown, { "alerts.webhook": "a secret", "alerts.repeat": "2h" });
  t.match(shown, { "plugins.some.from": "./some.ts", "plugins.some.deadline": "2s", "plugins.some.at": "5" });
  t.match(shown, { "plugins.some.list": "texts", "plugins.some.one": "a text" });
});
