import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import t, { type Test } from "tap";
import { addressWarnings, socketFileErrors } from "../../src/cli/address-warnings.ts";
import { loadWithExtensions } from "../../src/loaded-config.ts";

async function doubts(t: Test, provider: string) {
  const yaml = `providers:\n  one: ${provider}\nmodels: { m: { targets: [one:m] } }\n`;
  const file = join(t.testdir({ "gateway.yaml": yaml }), "gateway.yaml");
  const { config, extensions } = await loadWithExtensions({ file, env: {} });
  return addressWarnings(config, extensions.protocolList);
}

t.test("an address that resembles a known vendor's API is reported with the right one", async (t) => {
  for (const [written, right] of [
    ["https://openrouter.ai/api", "https://openrouter.ai/api/v1"],
    ["https://openrouter.ai", "https://openrouter.ai/api/v1"],
    ["https://api.groq.com/openai", "https://api.groq.com/openai/v1"],
    ["https://api.groq.com", "https://api.groq.com/openai/v1"],
    ["https://api.fireworks.ai/inference/", "https://api.fireworks.ai/inference/v1"],
  ] as const)
    t.match(await doubts(t, `{ protocol: openai-chat, url: "${written}" }`), [
      { severity: "warning", line: 2, message: new RegExp(`write url: ${right}$`) },
    ]);
});

t.test("an address that includes an operation's path is reported with the address without it", async (t) => {
  for (const [protocol, written, right] of [
    ["openai-chat", "https://api.example.com/v1/chat/completions", "https://api.example.com/v1"],
    ["openai-chat", "https://api.openai.com/v1/chat/completions/", "https://api.openai.com/v1"],
    ["anthropic-messages", "https://api.anthropic.com/v1/messages", "https://api.anthropic.com/v1"],
    ["openai-responses", "http://127.0.0.1:11434/v1/responses", "http://127.0.0.1:11434/v1"],
    ["openai-embeddings", "https://example.com/api/v3/embeddings", "https://example.com/api/v3"],
  ] as const)
    t.match(await doubts(t, `{ protocol: ${protocol}, url: "${written}" }`), [
      {
        severity: "warning",
        line: 2,
        message: new RegExp(`is appended to the URL automatically; write url: ${right}$`),
      },
    ]);
});

t.test(
  "no warning for right addresses, for other hosts, and for protocols that a vendor may serve elsewhere",
  async (t) => {
    for (const provider of [
      "{ url: https://api.openai.com/v1, protocol: openai-chat }",
      "{ url: https://api.openai.com, protocol: openai-chat }",
      "{ url: https://api.anthropic.com, protocol: anthropic-messages }",
      "{ url: https://generativelanguage.googleapis.com, protocol: gemini }",
      "{ url: https://generativelanguage.googleapis.com/v1, protocol: gemini }",
      "{ url: https://api.deepseek.com/anthropic, protocol: anthropic-messages }",
      "{ url: https://openrouter.ai/api, protocol: anthropic-messages }",
      "{ url: https://example.com/api, protocol: openai-chat }",
      '{ url: "demo:" }',
    ])
      t.same(await doubts(t, provider), [], provider);
  },
);

t.test("a socket file of the admin side in the place of something else is an error", async (t) => {
  // A socket's path must be short.
  const folder = mkdtempSync(join(tmpdir(), "gateway-socket-"));
  t.teardown(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, "notes.txt"), "text");
  const found = async (admin: string) => {
    const file = join(folder, "gateway.yaml");
    writeFileSync(file, `admin: ${admin}\nproviders: { d: { url: "demo:" } }\nmodels: { m: { targets: ["d:m"] } }\n`);
    return socketFileErrors((await loadWithExtensions({ file, env: {} })).config);
  };
  const other = /notes\.txt is no socket: remove it, or name another file$/;
  t.match(await found("unix:notes.txt"), [{ severity: "error", line: 1, column: 8, message: other }]);
  t.match(await found("{ listen: unix:notes.txt }"), [{ severity: "error", line: 1, column: 18, message: other }]);
  t.match(await found("unix:notes.txt/a.sock"), [{ message: /cannot be created: .*notes\.txt is no folder$/ }]);
  t.match(await found("unix:."), [{ message: /is a folder: name a file in it$/ }]);
  t.same(await found("unix:made/at/start.sock"), []);
});
