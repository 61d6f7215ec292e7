import { join } from "node:path";
import t, { type Test } from "tap";
import { compareConfigs, redactedSettings, restartSections } from "../../src/config/changes.ts";
import { loadConfig } from "../../src/config/load.ts";
import { findExtensions } from "../../src/loaded-config.ts";
import { folder } from "../loader/folder.ts";

async function config(t: Test, yaml: string) {
  const own = folder(t, { "gateway.yaml": yaml });
  return loadConfig(join(own, "gateway.yaml"), await findExtensions(own), {}, "/folder");
}

/** All that has units, in the words of the file. */
const SETTINGS: readonly [path: string, written: string, other: string][] = [
  ["listen", "127.0.0.1:8081", '"[::1]:80"'],
  ["admin.listen", "127.0.0.1:9091", "unix:/run/x.sock"],
  ["admin.session", "12h", "90m"],
  ["cors.max_age", "10m", "1h"],
  ["pages", "on", "off"],
  ["providers.p.concurrency", "off", "10"],
  ["providers.p.timeouts.connect", "5s", "1500ms"],
  ["providers.p.health.errors", "50%", "off"],
  ["providers.p.health.failures", "5", "6"],
  ["providers.p.health.open", "30s", "20s"],
  ["providers.p.warm", "5m", "off"],
  ["retry.budget", "20%", "7.5%"],
  ["retry.attempts", "1", "2"],
  ["retry.wait", "2s", "off"],
  ["health.keep", "50%", "100%"],
  ["models.m.context", "128k", "1M"],
  ["models.m.output", "4096", "8k"],
  ["models.m.created", "2026-01-01", "2026-02-01"],
  ["models.m.price.input", "1", "2.5"],
  ["models.m.facts.prefill", "true", "false"],
  ["plugins.auth.deadline", "5s", "1m"],
  ["plugins.auth.anonymous", "false", "true"],
  ["paths./v1/completions.strict", "false", "true"],
  ["paths./x/*.pass", "p", "q"],
  ["paths./x/*.open", "false", "true"],
  ["limits.default.rpm", "300", "off"],
  ["limits.all.tpm", "1M", "1500"],
  ["limits.groups.acme.budget", "$5/month", "$10/month"],
  ["limits.models.m.budget", "$0.25/hour", "off"],
  ["keys.x.budget", "$5/month", "$1_000"],
  ["keys.x.concurrency", "2", "off"],
  ["keys.x.expires", "2027-12-31", "2027-12-31T18:00:00Z"],
  ["store.keep", "400d", "off"],
  ["trace", "on", "off"],
  ["alerts.repeat", "4h", "30m"],
  ["connections.head", "10s", "1s"],
  ["connections.per_address", "256", "1k"],
  ["connections.headers", "100", "50"],
  ["connections.target", "8KiB", "1KiB"],
  ["connections.head_size", "16KiB", "32KiB"],
  ["connections.stalled", "1m", "90s"],
  ["body.depth", "128", "64"],
  ["body.names", "50k", "100k"],
  ["body.ratio", "100", "1k"],
  ["body.limit", "32MiB", "1MB"],
  ["body.slowest", "1KiB", "0B"],
  ["body.patience", "10s", "2s"],
  ["body.memory", "384MiB", "1GiB"],
  ["body.memory_per_key", "128MiB", "64MiB"],
  ["body.spool", "1GiB", "2GiB"],
  ["body.spool_per_key", "256MiB", "64MiB"],
  ["answers.memory", "256MiB", "64MiB"],
  ["answers.event", "16MiB", "1MiB"],
  ["sockets.message", "16MiB", "512KiB"],
  ["overload.per_key", "2k", "off"],
  ["overload.heap", "85%", "off"],
  ["drain", "10m", "30s"],
  ["crash_drain", "10s", "1m"],
  ["warm_up", "1s", "off"],
];

/** A gateway.yaml of these settings and what must stand beside them. */
function yamlOf(settings: readonly (readonly [path: string, written: string])[]): string {
  const tree: Record<string, unknown> = {};
  const put = (path: readonly string[], value: unknown) => {
    let here = tree;
    for (const step of path.slice(0, -1)) {
      here[step] ??= {};
      here = here[step] as Record<string, unknown>;
    }
    here[path.at(-1) as string] = value;
  };
  for (const name of ["p", "q"]) {
    put(["providers", name, "url"], "http://127.0.0.1:1/v1");
    put(["providers", name, "protocol"], "openai-chat");
  }
  put(["models", "m", "targets"], ["p:v"]);
  put(["keys", "x", "hash"], "ab".repeat(32));
  put(["cors", "origins"], ["*"]);
  put(["alerts", "webhook"], "https://hooks.test/a");
  put(["paths", "/x/*", "pass"], "p");
  for (const [path, written] of settings) {
    const [, before = "", name = "", last] = /^paths\.()(.*)\.(\w+)$/.exec(path) ?? [];
    const value = /^(?:true|false|\d+(?:\.\d+)?)$/.test(written) ? JSON.parse(written) : written.replaceAll('"', "");
    put(last === undefined ? path.split(".") : ["paths", `${before}${name}`, last], value);
  }
  return JSON.stringify(tree);
}

t.test("each setting has its position, and its text as in the file", async (t) => {
  const written = SETTINGS.map(([path, written]) => [path, written] as const);
  const before = await config(t, yamlOf(written));
  const shown = redactedSettings(before);
  for (const [path, text] of written) t.equal(shown[path], text, path);
  for (const [path, text, other] of SETTINGS) {
    const after = await config(t, yamlOf(written.map((each) => (each[0] === path ? [path, other] : each))));
    t.same(
      compareConfigs(before, after),
      [{ path, before: text, after: other.replaceAll('"', "").replace("_", "") }],
      `${path}: ${text} -> ${other}`,
    );
  }
});

t.test("a list of sums is one setting, and soft ones are marked", async (t) => {
  const at = (budget: string) =>
    config(t, `${yamlOf([]).slice(0, -1)}, "limits": { "all": { "budget": ${budget} } } }`);
  const changes = compareConfigs(
    await at('["$5/day"]'),
    await at('["$5/day", { "amount": "$80/month", "soft": true }, "$100"]'),
  );
  t.same(changes, [{ path: "limits.all.budget", before: "$5/day", after: "$5/day, $80/month (soft), $100" }]);
});

t.test("settings of a target are those that differ from the model's", async (t) => {
  const model = (targets: string) => config(t, yamlOf([]).replace('["p:v"]', targets));
  const shown = redactedSettings(
    await model('[{"to":"p:v","weight":3,"price":{"input":1}},{"to":"q:w","price":{"input":2}}]'),
  );
  t.match(shown, {
    "models.m.targets.0.to": "p:v",
    "models.m.targets.0.weight": "3",
    "models.m.targets.0.price.input": "1",
    "models.m.targets.1.to": "q:w",
    "models.m.targets.1.price.input": "2",
  });
  t.notOk(Object.keys(shown).some((path) => path.startsWith("models.m.price") || path.startsWith("models.m.facts")));
});

t.test("a removed path, and a disabled admin side, are shown as such", async (t) => {
  const [plain, without] = [await config(t, yamlOf([])), await config(t, yamlOf([["paths./v1/messages", "off"]]))];
  t.match(
    compareConfigs(plain, without).filter(({ path }) => path === "paths./v1/messages"),
    [{ before: undefined, after: "off" }],
  );
  const changes = compareConfigs(plain, await config(t, yamlOf([["admin", "off"]])));
  t.same(changes, [{ path: "admin.listen", before: "127.0.0.1:9090", after: "off" }]);
  t.same(restartSections(changes), ["admin"]);
  t.same(restartSections(compareConfigs(plain, await config(t, yamlOf([["admin.session", "1h"]])))), []);
});
