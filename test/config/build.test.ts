import t from "tap";
import { HEALTH } from "../support/provider.ts";
import { load, MINIMAL_CONFIG } from "./fixture.ts";

t.test("a provider has the common timeouts unless it has its own", async (t) => {
  const yaml = `timeouts: { connect: 1s, idle: off }
providers:
  a: { url: https://a/v1/, credential: $A, header: Api-Key, protocol: gemini, forward: [X-Acme-*], timeouts: { idle: 9s } }
  demo: { url: "demo:" }
models: { m: { targets: [a:x] } }
`;
  const { providers } = await load(t, yaml, { A: "secret-0123456789" });
  const account = providers[0]?.credentials[0]?.account;
  t.match(account, /^a\/0\/[0-9a-f]{12}$/, "another secret has connections of its own");
  t.same(providers[0], {
    name: "a",
    url: new URL("https://a/v1"),
    credentials: [{ label: "A", id: "A", secret: "secret-0123456789", account }],
    header: "api-key",
    speaks: ["gemini"],
    websocket: false,
    concurrency: 0,
    forward: ["x-acme-*"],
    shared: [],
    timeouts: { connect: 1000, first_byte: 600_000, idle: 9000, total: 0 },
    health: HEALTH,
    warm: 300_000,
  });
  t.same(providers[1], {
    name: "demo",
    url: "demo:",
    speaks: ["openai-chat", "openai-responses", "anthropic-messages", "gemini"],
    websocket: false,
    concurrency: 0,
    forward: [],
    shared: [],
    credentials: [],
    timeouts: { connect: 1000, first_byte: 600_000, idle: 0, total: 0 },
    health: HEALTH,
    warm: 300_000,
    vendor: "demo",
  });
});

t.test("a target is split at its first colon and has the weight 1", async (t) => {
  const { models } = await load(
    t,
    'providers: { demo: { url: "demo:" } }\nmodels: { m: { targets: ["demo:a:free", { to: demo:b/c, weight: 9 }] } }\n',
  );
  t.same(models[0]?.targets, [
    { provider: "demo", model: "a:free", weight: 1 },
    { provider: "demo", model: "b/c", weight: 9 },
  ]);
});

t.test("a target has the facts and the protocol of its model, unless it has its own", async (t) => {
  const { models } = await load(
    t,
    `providers: { demo: { url: "demo:" } }
models:
  m:
    via: gemini
    facts: { sampling: false, thinking: adaptive, prefill: false }
    targets: [demo:a, { to: demo:b, via: openai-chat, facts: { thinking: level, system_in_place: true } }]
`,
  );
  t.same(models[0]?.targets, [
    {
      provider: "demo",
      model: "a",
      weight: 1,
      via: "gemini",
      facts: { sampling: false, thinking: "adaptive", prefill: false },
    },
    {
      provider: "demo",
      model: "b",
      weight: 1,
      via: "openai-chat",
      facts: { sampling: false, thinking: "level", prefill: false, system_in_place: true },
    },
  ]);
});

const PRICE = { input: 0.25, cached: 0.025, cache_write: 0.3, output: 2, request: 0.01 };

t.test("a model keeps its settings, and its id is its default name", async (t) => {
  const yaml = `providers: { demo: { url: "demo:" } }
models:
  full:
    name: Full
    description: All of it
    aliases: [all, all-*]
    created: 2025-06-01
    context: 400k
    output: 128k
    can: [tools, vision]
    price: { input: 0.25, cached: 0.025, cache_write: 0.3, output: 2.00, request: 0.01 }
    targets: [demo:echo, { to: demo:b, price: { input: 1 } }]
    fallback: [least]
    via: gemini
  least: { targets: [demo:echo], balance: cheapest }
`;
  const { models } = await load(t, yaml);
  t.match(models[0]?.place, { line: 3, column: 3 });
  const told = models.map(({ place: _, ...model }) => model);
  t.same(told, [
    {
      id: "full",
      name: "Full",
      description: "All of it",
      aliases: ["all", "all-*"],
      created: Date.UTC(2025, 5, 1) / 1000,
      context: 400_000,
      output: 128_000,
      can: ["tools", "vision"],
      balance: "weighted",
      targets: [
        { provider: "demo", model: "echo", weight: 1, price: PRICE, via: "gemini", facts: { output: 128_000 } },
        { provider: "demo", model: "b", weight: 1, price: { input: 1 }, via: "gemini", facts: { output: 128_000 } },
      ],
      fallback: ["least"],
    },
    {
      id: "least",
      name: "least",
      aliases: [],
      created: Date.UTC(2026, 0, 1) / 1000,
      balance: "cheapest",
      targets: [{ provider: "demo", model: "echo", weight: 1 }],
      fallback: [],
    },
  ]);
});

t.test("without paths the default paths of every protocol are served, and the lists of models", async (t) => {
  const { paths } = await load(t, MINIMAL_CONFIG);
  t.same(paths, [
    { path: "/v1/chat/completions", protocol: "openai-chat", use: "llm", strict: false },
    { path: "/v1/responses", protocol: "openai-responses", use: "llm", strict: false },
    { path: "/v1/messages", protocol: "anthropic-messages", use: "llm", strict: false },
    { path: "/v1/messages/count_tokens", protocol: "anthropic-messages", use: "llm", strict: false },
    { path: "/v1beta/models/*", protocol: "gemini", use: "llm", strict: false },
    { path: "/v1/models", serve: "models", use: "read", strict: false },
    { path: "/v1beta/models", serve: "models", use: "read", strict: false },
    { path: "/v1/key", serve: "limits", use: "read", strict: false },
    { path: "/v1/requests", serve: "usage", use: "read", strict: false },
  ]);
});

/** The usual paths of the fixture's protocols, and the lists of models. */
const USUAL = 9;

/** With a provider to which requests can pass. */
const PASSING = MINIMAL_CONFIG.replace("demo:", "vendor: { url: https://a/v1, protocol: gemini }, demo:");

t.test("paths of the file are added to the default ones", async (t) => {
  const { paths, chains } = await load(
    t,
    `${PASSING}chains: { own: [auth] }\npaths:\n  /chat: { protocol: openai-chat, strict: true }\n  /models: { serve: models }\n  /x/*: { protocol: gemini, use: own }
  /v1/audio/*: { pass: vendor, use: [auth, usage], open: true }\n  /y/*: { pass: vendor }\n`,
  );
  t.same((await load(t, MINIMAL_CONFIG)).paths, paths.slice(0, USUAL));
  t.same(paths.slice(USUAL), [
    { path: "/chat", protocol: "openai-chat", use: "llm", strict: true },
    { path: "/models", serve: "models", use: "read", strict: false },
    { path: "/x/*", protocol: "gemini", use: "own", strict: false },
    {
      ...{ path: "/v1/audio/*", use: "/v1/audio/*", strict: false },
      pass: { provider: "vendor", open: true, mint: false },
    },
    { path: "/y/*", use: "pass", strict: false, pass: { provider: "vendor", open: false, mint: false } },
  ]);
  t.same(chains.get("/v1/audio/*"), ["auth", "usage"]);
  t.same(chains.get("pass"), ["auth", "scrub", "limits", "usage"]);
});

t.test("settings of a default path apply to it and below it, and off removes it", async (t) => {
  const { paths, chains } = await load(
    t,
    `${MINIMAL_CONFIG}paths:\n  /v1/messages: { strict: true, use: [auth] }\n  /v1/responses: off\n  /v1beta/models: off\n  /v1/models: { serve: region }\nplugins: { region: { region: eu } }\n`,
  );
  t.same(paths, [
    { path: "/v1/chat/completions", protocol: "openai-chat", use: "llm", strict: false },
    { path: "/v1/messages", protocol: "anthropic-messages", use: "/v1/messages", strict: true },
    { path: "/v1/messages/count_tokens", protocol: "anthropic-messages", use: "/v1/messages", strict: true },
    { path: "/v1beta/models/*", protocol: "gemini", use: "llm", strict: false },
    { path: "/v1/models", serve: "region", use: "read", strict: false },
    { path: "/v1/key", serve: "limits", use: "read", strict: false },
    { path: "/v1/requests", serve: "usage", use: "read", strict: false },
  ]);
  t.same(chains.get("/v1/messages"), ["auth"]);
  const off = await load(
    t,
    `${MINIMAL_CONFIG}paths: { /v1/messages: off, /v1/messages/count_tokens: { strict: true } }\n`,
  );
  t.same(
    off.paths.filter(({ path }) => path.startsWith("/v1/messages")),
    [{ path: "/v1/messages/count_tokens", protocol: "anthropic-messages", use: "llm", strict: true }],
  );
  const other = await load(t, `${PASSING}paths: { /v1/messages: { pass: vendor } }\n`);
  t.match(
    other.paths.filter(({ path }) => path.startsWith("/v1/messages")),
    [{ pass: { provider: "vendor" } }, { protocol: "anthropic-messages", use: "llm" }],
    "another kind of path does not affect those below it",
  );
});

t.test("keys and limits keep their units, and a disabled key has no hash", async (t) => {
  const yaml = `${MINIMAL_CONFIG}limits: { default: { rpm: 300, tpm: 1M, concurrency: 20, budget: $50/month } }
timezone: Europe/Berlin
keys:
  ci: { hash: ${"ab".repeat(32)}, models: [echo], rpm: off, budget: [$10/day, { amount: $5/week, soft: true }], expires: 2027-01-31 }
  off: { key: $GONE }
`;
  const { keys, limits, timezone } = await load(t, yaml);
  t.same(limits, {
    default: {
      rpm: 300,
      tpm: 1_000_000,
      concurrency: 20,
      budgets: [{ nano: 50_000_000_000, per: "month", soft: false }],
    },
    groups: new Map(),
    models: new Map(),
    providers: new Map(),
    keys: new Map([
      [
        "ci",
        {
          rpm: 0,
          budgets: [
            { nano: 10_000_000_000, per: "day", soft: false },
            { nano: 5_000_000_000, per: "week", soft: true },
          ],
        },
      ],
      ["off", {}],
    ]),
  });
  t.equal(timezone, "Europe/Berlin");
  t.same(keys, [
    {
      name: "ci",
      hash: "ab".repeat(32),
      models: ["echo"],
      expires: Date.UTC(2027, 0, 31),
    },
    { name: "off", off: "GONE is not set" },
  ]);
});
