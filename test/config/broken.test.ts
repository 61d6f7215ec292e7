import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import t from "tap";
import { runCheck } from "../../src/cli/check.ts";
import type { Terminal } from "../../src/cli/verb.ts";
import type { Problem } from "../../src/config/problems.ts";
import { dryStartPlugins } from "../../src/dry-start.ts";
import { findExtensions } from "../../src/loaded-config.ts";
import { captured } from "../support/terminal.ts";

/** A file that check finds right. */
const RIGHT = `listen: 127.0.0.1:8080
providers:
  openai: { url: https://api.openai.com/v1, credential: $OPENAI_API_KEY, protocol: openai-chat }
  demo: { url: "demo:" }
models:
  fast:
    aliases: [quick]
    targets: [openai:gpt-5.4-mini]
    fallback: [echo]
  echo: { targets: [demo:echo] }
limits: { default: { rpm: 300, budget: $50/month } }
timeouts: { connect: 5s }
keys:
  ci: { key: $CI_KEY, models: [fast] }
`;

/** What is broken: what stands there instead, the line and column where that is told, and the fix that the message names. */
type Broken = readonly [what: string, from: string | RegExp, to: string, place: string, fix: RegExp];

const BROKEN: readonly Broken[] = [
  ["a section's name misspelt", "providers:", "provders:", "2:1", /did you mean "providers"/],
  ["a setting's name misspelt", "credential:", "credntial:", "3:45", /did you mean "credential"/],
  ["a protocol misspelt", "protocol: openai-chat", "protocol: openai-cht", "3:84", /did you mean "openai-chat"/],
  ["a provider misspelt in a target", "[openai:gpt-5.4-mini]", "[opnai:gpt-5.4-mini]", "8:15", /did you mean "openai"/],
  ["a target without its provider", "[openai:gpt-5.4-mini]", "[gpt-5.4-mini]", "8:15", /provider:/],
  ["a fallback that is no model", "fallback: [echo]", "fallback: [ecoh]", "9:16", /did you mean "echo"/],
  ["a model in a key's list misspelt", "models: [fast]", "models: [fats]", "14:32", /did you mean "fast"/],
  ["more workers than any machine has cores", "timeouts:", "workers: 5000\ntimeouts:", "12:10", /at most 256/],
  ["an alias that is a model", "[quick]", "[echo]", "7:15", /take another alias/],
  ["a wrong type: a text for a list", "targets: [openai:gpt-5.4-mini]", "targets: openai:gpt-5.4-mini", "8:14", /list/],
  [
    "a wrong type: a list for a section",
    "limits: { default: { rpm: 300, budget: $50/month } }",
    "limits: []",
    "11:1",
    /^expected a map.*; write { default: … }/,
  ],
  ["a unit that there is not", "connect: 5s", "connect: 5sec", "12:22", /90s|5s|500ms/],
  ["a budget without its period's word", "$50/month", "$50/moon", "11:40", /\$50\/month/],
  ["a number that is none", "rpm: 300", "rpm: many", "11:27", /write it like 300/],
  ["an address that is none", "https://api.openai.com/v1", "api.openai.com", "3:18", /write it like https:/],
  [
    "an address with a key in it",
    "https://api.openai.com/v1",
    '"https://user:pass@api.openai.com/v1"',
    "3:18",
    /write the secret under credential/,
  ],
  [
    "a setting of oidc missing",
    "timeouts: { connect: 5s }",
    'admin: { listen: "127.0.0.1:9090", oidc: { issuer: "https://a.example.com", client_id: x, roles: { admin: [a] } } }',
    "12:36",
    /^"url" is missing/,
  ],
  [
    "a role of oidc that is a text",
    "timeouts: { connect: 5s }",
    'admin: { oidc: { issuer: "https://a.example.com", client_id: x, url: "https://b.example.com", roles: { viewer: a } } }',
    "12:112",
    /^expected a list.*write \[a\]/,
  ],
  ["a port that there is not", "127.0.0.1:8080", "127.0.0.1:99999", "1:9", /write it like 127\.0\.0\.1:8080/],
  ["a tab for spaces", "  openai:", "\topenai:", "3:1", /use spaces/],
  ["a key twice", "  demo:", '  openai: { url: "demo:" }\n  demo:', "4:3", /defined twice here; keep one/],
  [
    "a brace that is not closed",
    "protocol: openai-chat }",
    "protocol: openai-chat",
    "4:3",
    /bracket before it is not closed/,
  ],
  ["a quote that is not closed", '"demo:"', '"demo:', "4:16", /^missing closing "/],
  ["a key too short to be one", "$CI_KEY", "abc", "14:14", /20 characters/],
  ["a models section that is missing", /models:\n[\s\S]*?limits/, "limits", "1:1", /^"models" is missing/],
  [
    "a provider that says neither protocol nor speaks",
    ", protocol: openai-chat",
    "",
    "3:3",
    /^"speaks" is missing: a list of /,
  ],
  [
    "a plugin in a chain that there is not",
    "timeouts:",
    "chains: { llm: [sse, auth, modles, limits, rewrite, usage] }\ntimeouts:",
    "12:28",
    /did you mean "models"/,
  ],
  [
    "plugins in the wrong order",
    "timeouts:",
    "chains: { llm: [sse, models, auth, limits, rewrite, usage] }\ntimeouts:",
    "12:22",
    /must be after "auth"/,
  ],
  [
    "limits that nothing would keep",
    "timeouts:",
    "chains: { llm: [sse, auth, models, rewrite, usage] }\ntimeouts:",
    "12:11",
    /add "limits"/,
  ],
  [
    "an option that a plugin does not have",
    "timeouts:",
    "plugins: { scrub: { mod: strip } }\ntimeouts:",
    "12:21",
    /did you mean "mode"/,
  ],
  [
    "a plugin's option with a wrong value",
    "timeouts:",
    "plugins: { scrub: { mode: stripe } }\ntimeouts:",
    "12:27",
    /did you mean "strip"/,
  ],
  [
    "a plugin whose code is broken",
    "timeouts:",
    "plugins: { bad: { from: ./plugins/bad.ts } }\nchains: { llm: [sse, auth, bad, models, limits, rewrite, usage] }\ntimeouts:",
    "12:25",
    /fix from or the file, or take it out of chains: .*bad\.ts: .*Expected `\)`/,
  ],
  [
    "a plugin that fails at its start",
    "timeouts:",
    "plugins: { late: { from: ./plugins/late.ts } }\nchains: { llm: [sse, auth, late, models, limits, rewrite, usage] }\ntimeouts:",
    "3:11",
    /no licence; fix it or its options \(.*12:12\), or take it out of chains/,
  ],
  [
    "a plugin's file that is not there",
    "timeouts:",
    "plugins: { gone: { from: ./gone.ts } }\nchains: { llm: [sse, auth, gone, models, limits, rewrite, usage] }\ntimeouts:",
    "12:26",
    /fix from or the file.*there is no file .*gone\.ts$/,
  ],
  [
    "a secret's file that is not there",
    "$OPENAI_API_KEY",
    "$file:/nowhere/secret",
    "3:57",
    /\/nowhere\/secret; put the secret there/,
  ],
  ["a secret with a misspelt form", "$OPENAI_API_KEY", '"${OPENAI_API_KEY"', "3:57", /write \$NAME, "\$\{NAME\}"/],
  [
    "a path for a protocol that there is not",
    "timeouts:",
    "paths: { /x: { protocol: grpc } }\ntimeouts:",
    "12:26",
    /known: /,
  ],
  [
    "a path without a slash",
    "timeouts:",
    "paths: { x: { protocol: openai-chat } }\ntimeouts:",
    "12:10",
    /^a path starts with one \//,
  ],
  [
    "an expiry that is no date",
    "models: [fast] }",
    "models: [fast], expires: tomorrow }",
    "14:48",
    /write it like 2026-12-31/,
  ],
];

t.ok(BROKEN.length >= 30);

const folder = mkdtempSync(join(tmpdir(), "gateway-broken-"));
t.teardown(() => rmSync(folder, { recursive: true }));
mkdirSync(join(folder, "plugins"));
writeFileSync(join(folder, "plugins/bad.ts"), "export default class Bad {\n  request( {\n}\n");
writeFileSync(
  join(folder, "plugins/late.ts"),
  'export default class Late {\n  start() {\n    throw new Error("no licence");\n  }\n}\n',
);
const ENV = { OPENAI_API_KEY: "sk-0123456789abcdefgh", CI_KEY: "ci-key-0123456789abcdef" };

async function check(yaml: string): Promise<{ code: number; problems: Problem[] }> {
  writeFileSync(join(folder, "gateway.yaml"), yaml);
  const extensions = await findExtensions(folder);
  const run = (io: Terminal) =>
    runCheck(
      ["--json"],
      io,
      join(folder, "gateway.yaml"),
      extensions,
      (config) => dryStartPlugins(config, extensions),
      async () => [],
    );
  const { code, text } = await captured(run, { env: ENV, folder });
  return { code, problems: (JSON.parse(text) as { problems: Problem[] }).problems };
}

t.test("the file from which all others are derived is valid", async (t) => {
  t.match(await check(RIGHT), { code: 0, problems: { length: 0 } });
});

for (const [what, from, to, place, fix] of BROKEN)
  t.test(`${what}: reported with file, line, column and the fix`, async (t) => {
    const yaml = RIGHT.replace(from, to.replaceAll("$", "$$$$"));
    t.not(yaml, RIGHT);
    const { code, problems } = await check(yaml);
    const errors = problems.filter(({ severity }) => severity === "error");
    t.equal(code, 1);
    const [first] = errors;
    t.match(first?.file, to.includes("late.ts") ? /plugins\/late\.ts$/ : /gateway\.yaml$/);
    t.equal(`${first?.line}:${first?.column}`, place);
    // Not in the frame, which has the broken line itself.
    t.match(first?.message, fix, String(first?.message));
    t.equal(errors.length, 1, `one error is reported once: ${errors.map(({ message }) => message).join("; ")}`);
  });

/** Settings as somebody may mistype them, and what the message says to write. */
const MISTYPED: readonly (readonly [setting: string, write: RegExp])[] = [
  ["workers: two", /a number of processes like 2, or auto/],
  ["workers: atuo", /did you mean "auto"/],
  ["workers: 2.5", /a whole number/],
  ["warm_up: on", /1h or off, or leave it out/],
  ["alerts: $URL", /write { webhook: \$NAME }$/],
  ["log: debug", /write { level: … }, or with fields$/],
  ["body: 64MB", /write { limit: … }, or with idle/],
  ["retry: off", /write { attempts: … }, or with budget/],
  ["retry: { attempts: two }", /write digits, like 2$/],
  ["overload: off", /write { concurrency: … }, or with per_key/],
  ["store: ./data", /write { ledger: … }, or with journal/],
  ["instances: three", /write digits, like 2$/],
  ['cors: "*"', /expected off, or { origins: \[https/],
  ["cors: { origins: https://a.example }", /write \[https:\/\/a.example\]$/],
  ["pages: true", /write on$/],
  ["trace: no", /write off$/],
  ["sockets: 1000", /write { idle: … }, or with message$/],
  ["chains: [auth]", /write { NAME: … }$/],
  ["first_byte: 5s", /unknown key "first_byte" here; it belongs under "timeouts"$/],
  ["level: debug", /it belongs under "log"$/],
  ["paths: { /v1/chat/completions: llm }", /expected off, or a map like { protocol: …, use: llm }/],
  ["trust: true", /expected a list, found the boolean true$/],
  ["plugins: { record: { sample: 50% } }", /write 0\.5$/],
];

for (const [setting, write] of MISTYPED)
  t.test(`${setting}: reported with what to write`, async (t) => {
    const { problems } = await check(`${RIGHT}${setting}\n`);
    t.ok(
      problems.some(({ message }) => write.test(message)),
      JSON.stringify(problems.map(({ message }) => message)),
    );
  });

t.test("the same holds within providers, models and keys", async (t) => {
  const told = async (from: string, to: string) => (await check(RIGHT.replace(from, () => to))).problems[0]?.message;
  t.match(await told("[openai:gpt-5.4-mini]", "[{ to: openai:gpt-5.4-mini, weight: 90% }]"), /write 90$/);
  t.match(await told("[openai:gpt-5.4-mini]", "[[openai:gpt-5.4-mini]]"), /expected provider:vendor-model, or { to:/);
  t.match(await told("aliases:", "price: { image: cheap }\n    aliases:"), /expected a number, or a map of numbers/);
  t.match(await told("aliases:", "price: 2\n    aliases:"), /write { input: … }, or with cached, /);
  t.match(await told("aliases:", "price: { input: $2, output: 1 }\n    aliases:"), /write 2$/);
  t.match(
    await told("limits: { default: {", "limits: { rpm: 5, default: {"),
    /"rpm" here; it belongs under "default" or "all"$/,
  );
  t.match(await told("protocol: openai-chat", "protocol: openai-chat, total: 5m"), /it belongs under "timeouts"$/);
  t.match(await told("rpm: 300", "rpm: unlimited"), /128k, 1M or off$/);
  t.match(await told("{ key: $CI_KEY, models: [fast] }", "$CI_KEY"), /write { key: \$NAME }, or with hash/);
  t.match(await told("key: $CI_KEY", "hash: abc"), /sha256sum$/);
  t.match(await told("protocol: openai-chat", "protocol: openai-chat, header: 'X: y'"), /like x-api-key$/);
});
