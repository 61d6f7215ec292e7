import { readFileSync } from "node:fs";
import { dirname } from "node:path";
import t from "tap";
import { loadConfig } from "../../src/config/load.ts";
import { extensions, MINIMAL_CONFIG, write } from "./fixture.ts";

t.test("a file with only providers and models becomes a complete configuration", async (t) => {
  const file = write(t, MINIMAL_CONFIG);
  const { providers, models, plugins, paths, text, masked, written, ...rest } = await loadConfig(file, extensions, {});
  t.equal(providers.length, 1);
  t.equal(models.length, 1);
  t.equal(plugins.size, 7);
  t.equal(paths.length, 9);
  t.equal(text, readFileSync(file, "utf8"));
  t.equal(masked, text);
  t.equal(written.models.size, 1);
  t.same(rest, {
    file,
    folder: dirname(file),
    pages: true,
    listen: { host: "127.0.0.1", port: 8080 },
    admin: { host: "127.0.0.1", port: 9090, isDefault: true },
    adminAccess: { hosts: [], session: 43_200_000 },
    workers: 1,
    chains: new Map([
      ["llm", ["sse", "auth", "scrub", "models", "limits", "rewrite", "usage"]],
      ["read", ["auth"]],
      ["pass", ["auth", "scrub", "limits", "usage"]],
    ]),
    pathsOff: [],
    retry: { attempts: 1, budget: 0.2, least: 2, wait: 2000, after_timeout: true, first_frame: 10_000 },
    keep: 0.5,
    limits: { groups: new Map(), models: new Map(), providers: new Map(), keys: new Map() },
    budgets: [],
    timezone: "UTC",
    keys: [],
    share: "key",
    store: { ledger: `${dirname(file)}/data/gateway.db`, limits: "memory", durability: "process", keep: 0 },
    trust: [],
    trace: true,
    connections: {
      ...{ per_address: 256, headers: 100, head_size: 16_384, target: 8192 },
      ...{ head: 10_000, idle: 75_000, stalled: 60_000 },
    },
    body: {
      limit: 33_554_432,
      idle: 30_000,
      slowest: 1024,
      patience: 10_000,
      depth: 128,
      names: 50_000,
      ratio: 100,
      memory: 402_653_184,
      memory_per_key: 134_217_728,
      spool: 1_073_741_824,
      spool_per_key: 268_435_456,
    },
    answers: { memory: 268_435_456, event: 16_777_216 },
    sockets: { idle: 600_000, message: 16_777_216 },
    overload: { concurrency: 4000, per_key: 2000, queue: 1000, wait: 2000, delay: 200, heap: 0.85 },
    drain: 600_000,
    linger: 5000,
    crash_drain: 10_000,
    warm_up: 1000,
    envelopes: {},
    log: { level: "info", fields: [] },
    notices: [],
    warnings: [],
  });
});
