import t from "tap";
import { checkIneffective } from "../../src/config/ineffective.ts";
import type { Finding } from "../../src/config/problems.ts";
import { complaints, load, MINIMAL_CONFIG } from "./fixture.ts";

function said(file: unknown): string[] {
  const findings: Finding[] = [];
  checkIneffective(file, (finding) => findings.push(finding));
  return findings.map(
    ({ path, key, message, severity = "error" }) =>
      `${severity === "error" ? "" : `${severity} `}${path.join(".")}${key ? "!" : ""} ${message}`,
  );
}

t.test("connection settings do not apply to the built-in provider", async (t) => {
  const demo = (settings: object) => said({ providers: { demo: { url: "demo:", ...settings } } });
  for (const [settings, at, why] of [
    [{ websocket: true }, "websocket", "takes no WebSockets"],
    [{ forward: ["x-a"] }, "forward", "reads no headers"],
    [{ header: "api-key", credential: "$K" }, "header", "reads no headers"],
    [{ idempotency: "idempotency-key" }, "idempotency", "does not recognise repeated requests"],
    [{ vendor: "openai" }, "vendor", "costs nothing"],
    [{ warm: "5m" }, "warm", "has no TLS connections"],
    [{ timeouts: { connect: "5s" } }, "timeouts.connect", "is in this process"],
  ] as const)
    t.same(demo(settings), [
      `${at === "websocket" ? "" : "warning "}providers.demo.${at}! "demo" is the built-in provider, which ${why}: leave out "${at.split(".").at(-1)}", or give the provider an http url`,
    ]);
  const off = { websocket: false, forward: [], warm: "off", timeouts: { connect: "off" } };
  t.same(
    demo({ ...off, shared: ["vs_1"], concurrency: 2, threads: true, speaks: ["gemini"] }),
    [],
    "settings that keep their effect",
  );
  t.same(demo({ timeouts: { first_byte: "1s", idle: "1s", total: "1s" }, health: { failures: 1 } }), []);
  const elsewhere = { url: "https://x/v1", forward: ["x-a"], header: "x-b", credential: "$K", warm: "5m" };
  t.same(said({ providers: { one: elsewhere } }), []);
});

t.test("the header of a credential requires a credential", async (t) => {
  const one = (settings: object) => said({ providers: { one: { url: "https://x/v1", ...settings } } });
  t.same(one({ header: "api-key" }), [
    'providers.one.header! "header" has no effect without "credential"; leave it out, or add a credential',
  ]);
  t.same(one({ header: "api-key", credentail: "$K" }), [], "a misspelt name is reported elsewhere");
  t.same(one({ header: "api-key", credential: ["$K"] }), []);
});

t.test("a target, or a fallback model, is listed once", async (t) => {
  const model = (entry: object) => said({ models: { a: entry } });
  const twice = "is listed twice here; keep one";
  const target = `models.a.targets.1 "one:x" ${twice}, with { to: one:x, weight: 2 } for twice the share`;
  t.same(model({ targets: ["one:x", "one:x"] }), [target]);
  t.same(model({ targets: ["one:x", { weight: 1, to: "one:x" }] }), [target]);
  t.same(
    model({
      targets: [
        { to: "one:x", via: "chat", price: {} },
        { price: {}, via: "chat", to: "one:x" },
      ],
    }),
    [target],
  );
  t.same(model({ targets: ["one:x", "two:x", { to: "one:x", via: "chat" }, { to: "one:x", weight: 2 }] }), []);
  t.same(model({ fallback: ["b", "c", "b"] }), [`models.a.fallback.2 "b" ${twice}`]);
});

t.test("one key's concurrency cannot exceed the total", async (t) => {
  const overload = (text: string) => complaints(t, `${MINIMAL_CONFIG}overload: { ${text} }\n`);
  t.same(await overload("per_key: 20, concurrency: 10"), [
    "3:22 must not be more than concurrency (10): more requests of one key never run at the same time; write off, or less",
  ]);
  t.match(await overload("per_key: 5000"), [/concurrency \(4000\)/], "also where the other one is not written");
  for (const right of [
    "concurrency: 10",
    "per_key: 10, concurrency: 10",
    "per_key: 9k, concurrency: off",
    "per_key: off",
  ])
    t.same(await overload(right), [], right);
});

t.test("no timeout is longer than the one that ends it", async (t) => {
  const first = /must not be longer than total \(5m\), which ends the attempt before/;
  t.match(await complaints(t, `${MINIMAL_CONFIG}timeouts: { first_byte: 10m, total: 5m }\n`), [first]);
  t.match(await complaints(t, `${MINIMAL_CONFIG}timeouts: { idle: 6m, connect: 7m, total: 5m }\n`), [first, first]);
  t.match(await complaints(t, `${MINIMAL_CONFIG}health: { slow: 20m }\n`), [
    /shorter than first_byte of timeouts \(10m\)/,
  ]);
  t.match(await complaints(t, `${MINIMAL_CONFIG}drain: 2s\ncrash_drain: 5s\n`), [
    "4:14 must not be longer than drain (2s), which is the most after a crash too",
  ]);
  t.match(await complaints(t, `${MINIMAL_CONFIG}drain: 2s\nlinger: 5s\n`), [
    "4:9 must not be longer than drain (2s), with which a stop ends",
  ]);
  const own = (text: string, all = "") =>
    `providers: { up: { url: "http://a/v1", protocol: gemini, ${text} }, demo: { url: "demo:" } }\nmodels: { echo: { targets: [demo:echo] } }\n${all}`;
  t.match(await complaints(t, own("timeouts: { first_byte: 10m }", "timeouts: { total: 5m }\n")), [
    /1:\d+ must not be longer than total \(5m\), here or for all/,
  ]);
  t.match(await complaints(t, own("health: { slow: 1m }, timeouts: { first_byte: 30s }")), [
    /1:\d+ must be shorter than first_byte of timeouts \(30s\), here or for all/,
  ]);
  for (const right of [
    "timeouts: { total: 5m }",
    "timeouts: { first_byte: 5m, total: 5m }",
    "timeouts: { first_byte: 20m }\nhealth: { slow: 15m }",
    "drain: 2s",
    "drain: off\nlinger: 1h",
    "drain: off\ncrash_drain: 1m",
  ])
    t.same(await complaints(t, `${MINIMAL_CONFIG}${right}\n`), [], right);
  await load(t, own("timeouts: { total: 5m }", "timeouts: { first_byte: 20m }\n"));
});

t.test("no size is larger than the one that contains it", async (t) => {
  t.match(await complaints(t, `${MINIMAL_CONFIG}connections: { target: 16KiB }\n`), [
    /^3:\d+ must be 1KiB less than head_size \(16KiB\)/,
  ]);
  t.match(await complaints(t, `${MINIMAL_CONFIG}answers: { memory: 32MiB, event: 17MiB }\n`), [
    /^3:\d+ must not be more than half of memory \(32MiB\)/,
  ]);
  for (const right of [
    "connections: { head_size: 4KiB }",
    "connections: { target: 31KiB, head_size: 32KiB }",
    "answers: { memory: 16MiB }",
    "answers: { memory: 32MiB, event: 16MiB }",
  ])
    t.same(await complaints(t, `${MINIMAL_CONFIG}${right}\n`), [], right);
});

t.test("a model whose output limit exceeds its context is a warning", async (t) => {
  const model = (text: string) =>
    load(t, `providers: { demo: { url: "demo:" } }\nmodels: { echo: { targets: [demo:echo], ${text} } }\n`);
  const { warnings } = await model("context: 64k, output: 128k");
  t.match(warnings, [
    { severity: "warning", line: 2, message: /larger than context, which is 64k; are the two swapped\?/ },
  ]);
  t.same((await model("context: 128k, output: 128k")).warnings, []);
});

t.test("the paths of a key must be served", async (t) => {
  const files = `providers: { up: { url: https://a/v1, protocol: gemini }, demo: { url: "demo:" } }\nmodels: { echo: { targets: [demo:echo] } }\n`;
  const key = (paths: string) =>
    `${files}paths: { /up/*: { pass: up }, /v1/responses: off }\nkeys: { ci: { hash: ${"ab".repeat(32)}, paths: [${paths}] } }\n`;
  t.match(
    await complaints(t, key('/v1/chat/completion, /v2/*, "*/nothing", /v1/chat/completions/x, GET /v1/responses')),
    [
      /4:\d+ unknown path "\/v1\/chat\/completion", did you mean "\/v1\/chat\/completions"\?/,
      /4:\d+ unknown path "\/v2\/\*"; known: \/v1\/chat\/completions, /,
      /4:\d+ unknown path "\/v1\/chat\/completions\/x"/,
      /4:\d+ unknown path "\/v1\/responses"/,
    ],
  );
  for (const right of [
    ...["/v1/*", "/v1/chat/*", '"*"', "/v1/messages", "/v1*ons", "/v1/models", "/v1/models/some/id", "/v1/key"],
    ...["/v1beta/models/gemini:generateContent", "/v1beta/models/*:generateContent", "/v1beta/*", "/v1beta/models/x*"],
    ...["/up", "/up/*", "/up/files", "/up/f*/x", "GET /up/*", "DELETE /v1/models/x"],
  ])
    await load(t, key(right));
});
