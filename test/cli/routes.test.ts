import t from "tap";
import { help, USAGE } from "../../src/cli/help/routes.ts";
import { runRoutes } from "../../src/cli/routes.ts";
import { loadConfig } from "../../src/config/load.ts";
import { findExtensions } from "../../src/loaded-config.ts";
import { UsageError } from "../../src/text/format-error.ts";
import { captured } from "../support/terminal.ts";

const YAML = `providers: { demo: { url: "demo:" }, own: { url: "http://127.0.0.1:1/v1", protocol: openai-chat } }
models: { echo: { targets: [demo:echo] } }
paths:
  /v1/messages: { strict: true }
  /acme/chat: { protocol: openai-chat, use: [sse, auth, models, limits, rewrite, usage] }
  /acme/v1/*: { pass: own }
  /v1beta/models: off
`;

t.test("each path is a line with its protocol, its chain and its plugins in order", async (t) => {
  const folder = t.testdir({ "gateway.yaml": YAML });
  const config = await loadConfig(`${folder}/gateway.yaml`, await findExtensions(folder), {});
  const routes = (...args: string[]) => captured((io) => runRoutes(args, io, config), { folder });
  const { code, text } = await routes();
  t.equal(code, 0);
  t.match(
    text,
    /^\/v1\/messages +models, as anthropic-messages \(strict\) +llm +sse auth scrub models limits rewrite usage$/m,
  );
  t.match(text, /^\/acme\/chat +models, as openai-chat +- +sse auth models limits rewrite usage$/m);
  t.match(text, /^\/acme\/v1\/\* +provider own, unread +pass +\S/m);
  t.match(text, /^\/v1\/models +plugin models +read +auth$/m);
  t.match(text, /\noff: \/v1beta\/models$/);

  const { code: also, out } = await routes("--json");
  t.equal(also, 0);
  t.match(
    (JSON.parse(out) as { path: string }[]).find(({ path }) => path === "/acme/chat"),
    { protocol: "openai-chat", plugins: ["sse", "auth", "models", "limits", "rewrite", "usage"], strict: false },
  );
  await t.rejects(routes("--prices"), { constructor: UsageError, message: /--prices/ });
  t.match(USAGE, /^usage: .* routes \[--json\]/);
  t.match(help, /^routes /);
});
