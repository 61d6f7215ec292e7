import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import t from "tap";
import { commonConfigHash, configHash } from "../../src/metrics/process-metrics.ts";
import { JournaledLedger } from "../../src/store/journal/journaled-ledger.ts";
import { asking, startGateway } from "../support/gateway.ts";
import { plainEntry } from "../support/plain-entry.ts";
import { until } from "../support/until.ts";

t.test("a gateway.yaml is identified by half of its digest, which reveals nothing of it", async (t) => {
  t.match(configHash("models: {}"), /^[0-9a-f]{32}$/);
  t.not(configHash("models: {}"), configHash("models: { }"));
});

t.test("gateways that differ in addresses and local files alone count as equal, and nothing else does", async (t) => {
  const file = (listen: number, admin: string, store: string) =>
    `listen: ${listen}\nadmin: ${admin}\nstore: ${store}\n`;
  const one = commonConfigHash(file(1, "3", "{ ledger: sqlite:a, journal: b, keep: 1d }"));
  t.equal(one, commonConfigHash(file(2, "unix:a", "{ ledger: 'sqlite:b', keep: 1d } # mine")));
  t.equal(one, commonConfigHash(file(2, "{ listen: 4 }", "{ ledger: 'sqlite:b', keep: 1d }")));
  t.not(one, commonConfigHash(file(1, "{ listen: 3, hosts: [a] }", "{ ledger: sqlite:a, keep: 1d }")));
  t.not(one, commonConfigHash(file(1, "3", "{ ledger: sqlite:a, keep: 2d }")));
  t.not(one, commonConfigHash(file(1, "3", "{ ledger: postgres://a, keep: 1d }")));
  t.not(one, commonConfigHash(`${file(1, "3", "{ keep: 1d }")}models: {}\n`));
  const merged = (listen: number, section: string) =>
    commonConfigHash(`x-own: &own { listen: ${listen}, admin: "3" }\n<<: *own\nstore: ${section}\n`);
  t.equal(merged(1, "{ keep: 1d }"), merged(2, "{ keep: 1d }"));
  t.not(merged(1, "{ keep: 1d }"), merged(1, "{ keep: 2d }"));
  t.match(commonConfigHash("models:\n"), /^[0-9a-f]{32}$/);
});

t.test("the metrics of a process name every target, and one that was not called yet is healthy", async (t) => {
  const yaml = 'providers: { demo: { url: "demo:" } }\nmodels: { echo: { targets: [demo:echo] } }\n';
  const { gateway } = await startGateway(t, yaml);
  const all = (await gateway.answers.answer("metrics", null)) as { name: string; values: object[] }[];
  const of = (name: string) => all.find((metric) => metric.name === name)?.values;
  t.same(of("gateway_target_up"), [{ labels: { target: "demo:echo" }, value: 1 }]);
  t.same(of("gateway_limiter_degraded"), [{ labels: {}, value: 0 }]);
  t.ok(of("gateway_inflight")?.some((value) => JSON.stringify(value).includes("openai-chat")));
});

t.test("a target is up again when a request has succeeded there, and not as soon as one may be tried", async (t) => {
  const yaml = `providers: { down: { url: "http://127.0.0.1:9/v1", speaks: [openai-chat] } }
models: { m: { targets: [down:x] } }
health: { failures: 1, open: 10ms }
retry: { attempts: 0 }
`;
  const { gateway, url } = await startGateway(t, yaml);
  const of = async (name: string) => {
    const all = (await gateway.answers.answer("metrics", null)) as { name: string; values: { value: number }[] }[];
    return all.find((metric) => metric.name === name)?.values[0]?.value;
  };
  t.equal(await of("gateway_target_up"), 1);
  await fetch(`${url}/v1/chat/completions`, { method: "POST", headers: asking(), body: '{"model":"m","messages":[]}' });
  await until(async () => (await of("gateway_target_cooldown_seconds")) === 0, "the time that it is left alone");
  t.equal(await of("gateway_target_up"), 0);
});

t.test("a ledger's backlog is reported with the bytes of its journal", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "gateway-backlog-"));
  t.teardown(() => rmSync(folder, { recursive: true }));
  const ledger = new JournaledLedger(join(folder, "l.db"), join(folder, "l.db.journal"));
  t.same(await ledger.backlog(), { lag: 0, oldest: 0, bytes: 0, errors: 0 });
  ledger.append(plainEntry(1));
  await ledger.flush();
  const { bytes, errors } = await ledger.backlog();
  t.ok(bytes > 0);
  t.equal(errors, 0);
  await ledger.close();
});
