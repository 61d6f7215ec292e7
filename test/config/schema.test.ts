import t from "tap";
import { z } from "zod";
import { DEFAULT_CHAINS, FileSchema } from "../../src/config/schema.ts";
import { HEALTH } from "../support/provider.ts";

/** What of it stands in a file; how long at most follows from the rest. */
const { longest: _, ...OWN_HEALTH } = HEALTH;

type Json = {
  description?: string;
  properties?: Record<string, Json>;
  additionalProperties?: Json | boolean;
  items?: Json;
  anyOf?: Json[];
};

t.test("every field of a JSON Schema for editors has a description", async (t) => {
  let seen = 0;
  const look = (schema: Json, path: string): void => {
    for (const [name, field] of Object.entries(schema.properties ?? {})) {
      seen++;
      t.ok(field.description, `${path}${name} has a description`);
      look(field, `${path}${name}.`);
    }
    for (const below of [schema.additionalProperties, schema.items, ...(schema.anyOf ?? [])])
      if (typeof below === "object") look(below, `${path}*.`);
  };
  const { $defs, ...schema } = z.toJSONSchema(FileSchema, { io: "input" }) as Json & { $defs: Record<string, Json> };
  look(schema, "");
  for (const [name, defined] of Object.entries($defs)) look(defined, `${name}: `);
  t.ok(seen > 50, `${seen} fields`);
});

t.test("the schema for editors shows defaults in the file's notation", async (t) => {
  const json = z.toJSONSchema(FileSchema, { io: "input" }) as unknown as {
    properties: Record<string, { default?: unknown; properties: Record<string, { default?: unknown }> }>;
    required: string[];
  };
  t.equal(json.properties["drain"]?.default, "600s");
  t.equal(json.properties["timeouts"]?.properties["total"]?.default, "off");
  t.equal(json.properties["body"]?.properties["limit"]?.default, "32MiB");
  t.same(json.required, ["providers", "models"]);
});

t.test("only providers and models are required", async (t) => {
  const file = FileSchema.parse({
    providers: { demo: { url: "demo:" } },
    models: { echo: { targets: ["demo:echo"] } },
  });
  t.same(file, {
    listen: "127.0.0.1:8080",
    admin: "127.0.0.1:9090",
    cors: "off",
    pages: "on",
    workers: 1,
    providers: { demo: { url: "demo:", websocket: false, forward: [], shared: [], concurrency: 0, warm: 300_000 } },
    timeouts: { connect: 5000, first_byte: 600_000, idle: 120_000, total: 0 },
    retry: { attempts: 1, budget: 0.2, least: 2, wait: 2000, after_timeout: true, first_frame: 10_000 },
    health: { ...OWN_HEALTH, keep: 0.5 },
    models: { echo: { aliases: [], balance: "weighted", targets: ["demo:echo"], fallback: [], public: true } },
    plugins: {},
    paths: {},
    chains: {},
    limits: { groups: {}, models: {}, providers: {} },
    timezone: "UTC",
    keys: {},
    share: "key",
    store: { ledger: "sqlite:./data/gateway.db", limits: "memory", durability: "process", keep: 0 },
    envelopes: {},
    trust: [],
    trace: "on",
    connections: {
      ...{ per_address: 256, headers: 100, head_size: 16_384, target: 8192 },
      ...{ head: 10_000, idle: 75_000, stalled: 60_000 },
    },
    body: {
      limit: 32 * 2 ** 20,
      idle: 30_000,
      slowest: 1024,
      patience: 10_000,
      depth: 128,
      names: 50_000,
      ratio: 100,
      memory: 384 * 2 ** 20,
      memory_per_key: 128 * 2 ** 20,
      spool: 2 ** 30,
      spool_per_key: 256 * 2 ** 20,
    },
    answers: { memory: 256 * 2 ** 20, event: 2 ** 24 },
    sockets: { idle: 600_000, message: 16 * 2 ** 20 },
    overload: { concurrency: 4000, per_key: 2000, queue: 1000, wait: 2000, delay: 200, heap: 0.85 },
    drain: 600_000,
    linger: 5000,
    crash_drain: 10_000,
    warm_up: 1000,
    log: { level: "info", fields: [] },
  });
});

t.test("proxies are addresses and ranges; settings that cannot be enforced are not accepted", async (t) => {
  const some = { providers: { demo: { url: "demo:" } }, models: { echo: { targets: ["demo:echo"] } } };
  const trust = ["127.0.0.1", "10.0.0.0/8", "fd00::/8", "::1"];
  t.same(FileSchema.parse({ ...some, trust }).trust, trust);
  for (const wrong of [
    { trust: ["nginx"] },
    { trust: ["10.0.0.0/33"] },
    { connections: { per_address: 0 } },
    { body: { patience: "off" } },
  ])
    t.throws(
      () => FileSchema.parse({ ...some, ...wrong }),
      /write it like 127\.0\.0\.1|more than 0/,
      JSON.stringify(wrong),
    );
});

t.test("the default chains list each plugin once", async (t) => {
  for (const chain of Object.values(DEFAULT_CHAINS)) t.equal(new Set(chain).size, chain.length);
});
