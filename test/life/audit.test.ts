import { appendFileSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import t from "tap";
import { type GatewayProcess, startProcess } from "../support/process.ts";
import { until } from "../support/until.ts";

const YAML = `linger: 50ms
providers: { demo: { url: "demo:" } }
models: { echo: { targets: [demo:echo] } }
`;

interface Entry {
  who: string;
  action: string;
  detail: Record<string, unknown>;
}

/** The audit trail, oldest first. */
async function wholeTrail({ admin }: GatewayProcess): Promise<Entry[]> {
  const { entries } = (await (await fetch(`${admin}/api/audit`)).json()) as { entries: Entry[] };
  return entries.toReversed();
}

/** What was done since the start. */
const trailOf = async (gateway: GatewayProcess): Promise<Entry[]> =>
  (await wholeTrail(gateway)).filter(({ action }) => action !== "start");

async function has(gateway: GatewayProcess, count: number): Promise<void> {
  await until(async () => (await trailOf(gateway)).length >= count, `${count} entries`);
}

for (const workers of [1, 2])
  t.test(`signals and whoever requested a reload are in the audit trail once, with ${workers} running`, async (t) => {
    const gateway = await startProcess(t, `${YAML}workers: ${workers}\n`);
    const file = join(gateway.folder, "gateway.yaml");
    const write = (more: string) =>
      writeFileSync(
        file,
        `listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nstore: { ledger: "sqlite:./gateway.db" }\nwarm_up: off\n${YAML}workers: ${workers}\n${more}`,
      );
    write("drain: 7s\n");
    gateway.child.kill("SIGHUP");
    await has(gateway, 1);
    write("drain: { credential: a-secret-of-somebody }\n");
    gateway.child.kill("SIGHUP");
    await has(gateway, 2);
    write("drain: 8s\n");
    const headers = { "content-type": "application/json" };
    const asked = { method: "POST", headers, body: '{"user":"alice"}' };
    await fetch(`${gateway.admin}/api/reload`, asked);
    if (workers > 1) {
      gateway.child.kill("SIGUSR2");
      await has(gateway, 5);
    }
    const trail = await trailOf(gateway);
    const signal = { signal: "SIGHUP" };
    t.match(trail.slice(0, 3), [
      { who: "signal", action: "reload", detail: { ...signal, generation: 2, changes: [{ path: "drain" }] } },
      { who: "signal", action: "reload", detail: { ...signal, problem: /gateway\.yaml:\d+:\d+/ } },
      {
        who: "local",
        action: "reload",
        detail: { cli: "alice", generation: 3, changes: [{ path: "drain", after: "8s" }] },
      },
    ]);
    t.match(
      trail.slice(3),
      workers === 1
        ? { length: 0 }
        : [
            { who: "signal", action: "reload", detail: { signal: "SIGUSR2", changes: { length: 0 } } },
            { who: "signal", action: "workers.replace", detail: { signal: "SIGUSR2", workers: 2 } },
          ],
    );
    t.equal(trail.length, workers === 1 ? 3 : 5, "each once");
    t.notMatch(JSON.stringify(trail), "a-secret-of-somebody");
    t.equal(await gateway.end(), 0);
  });

t.test("a reload by --watch is in the audit trail", async (t) => {
  const gateway = await startProcess(t, YAML, { args: ["--watch"] });
  writeFileSync(join(gateway.folder, "gateway.yaml"), "models: {");
  await has(gateway, 1);
  t.match(await trailOf(gateway), [{ who: "watch", action: "reload", detail: { problem: /gateway\.yaml/ } }]);
  t.equal(await gateway.end(), 0);
});

t.test("with --watch, a plugin that could not be loaded is loaded once it is mended", async (t) => {
  const gateway = await startProcess(t, YAML, { args: ["--watch"] });
  const [file, own] = ["gateway.yaml", "own.ts"].map((name) => join(gateway.folder, name)) as [string, string];
  writeFileSync(own, "export default class Own {");
  appendFileSync(
    file,
    "plugins: { own: { from: ./own.ts } }\nchains: { llm: [sse, auth, own, models, rewrite, usage] }\n",
  );
  await has(gateway, 1);
  t.match((await trailOf(gateway))[0]?.detail, { problem: /own\.ts/ });
  writeFileSync(own, "export default class Own { access() {} }");
  await until(async () => (await trailOf(gateway)).some(({ detail }) => detail["generation"] === 2), "reloaded");
  t.equal(await gateway.end(), 0);
});

t.test("a start with a changed gateway.yaml is in the audit trail as one", async (t) => {
  const first = await startProcess(t, YAML);
  const { folder } = first;
  const starts = async (gateway: GatewayProcess, count: number) => {
    const found = async () => (await wholeTrail(gateway)).filter(({ action }) => action === "start");
    await until(async () => (await found()).length === count, `${count} starts`);
    return (await found()).map(({ who, detail }) => ({ who, ...detail }));
  };
  t.match(await starts(first, 1), [
    {
      who: /^cli:/,
      version: /^\d/,
      file: join(folder, "gateway.yaml"),
      host: hostname(),
      listen: /^127\.0\.0\.1:\d+$/,
      file_hash: /^[0-9a-f]{32}$/,
      file_changed: undefined,
    },
  ]);
  await first.end();
  const second = await startProcess(t, YAML, { folder });
  t.match((await starts(second, 2))[1], { file_changed: false });
  await second.end();
  const third = await startProcess(t, `${YAML}workers: 2\n`, { folder });
  const [, before, now] = await starts(third, 3);
  t.match(now, { file_changed: true, before: (before as { file_hash?: unknown }).file_hash });
  await until(() => third.text.includes("has changed since the last start or reload"), "the line of the log");
  await third.end();
});
