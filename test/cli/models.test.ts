import t, { type Test } from "tap";
import { help, USAGE } from "../../src/cli/help/models.ts";
import { runModels } from "../../src/cli/models.ts";
import { loadConfig } from "../../src/config/load.ts";
import { extensions } from "../config/fixture.ts";
import { captured } from "../support/terminal.ts";

const YAML = `providers:
  demo: { url: "demo:" }
  openai: { url: https://api.openai.com/v1, credential: $NONE, protocol: openai-chat }
  anthropic: { url: https://api.anthropic.com/v1, credential: $NONE, protocol: anthropic-messages }
  own: { url: http://127.0.0.1:1/v1, protocol: openai-chat }
models:
  echo: { targets: [demo:echo] }
  gpt: { targets: [openai:gpt-5.6, { to: openai:gpt-5.4-mini, price: { input: 7, output: 8 } }] }
  like: { targets: [anthropic:claude-sonnet-4-5-foo] }
  own: { context: 8k, targets: [own:x] }
`;

async function models(t: Test, ...args: string[]) {
  const folder = t.testdir({ "gateway.yaml": YAML });
  const config = await loadConfig(`${folder}/gateway.yaml`, extensions, {});
  const { code, out, err } = await captured((io) => runModels(args, io, config), { folder }, USAGE, args);
  return { code, out: out.split("\n"), err };
}

t.test("each target is a row with its abilities and limits, each figure with a letter for its source", async (t) => {
  const { out, code } = await models(t);
  t.equal(code, 0);
  const [gpt, can, mini] = out.slice(out.findIndex((line) => line.startsWith("gpt ")));
  t.match(gpt, /^gpt +openai:gpt-5\.6 +1,050,000 a +128,000 b$/);
  t.match(can, /^ {4}can tools .* b$/);
  t.match(mini, /^gpt +openai:gpt-5\.4-mini +400,000 a +128,000 b$/);
  t.match(out.at(-5), /^own +own:x +8,000 c +-$/);
  t.match(out.slice(-3), [/^a {2}genai-prices \S+$/, /^b {2}litellm \S+$/, /^c {2}gateway\.yaml$/]);
});

t.test("each price is shown with its source; an unpriced one is marked", async (t) => {
  const { out } = await models(t, "--prices");
  t.match(out[1], /^echo +demo:echo +0 a +- +- +- +0 a$/);
  const at = out.findIndex((line) => line.startsWith("gpt "));
  t.match(out[at], /^gpt +openai:gpt-5\.6 +4 b +0\.4 b +5 b +10 c +20 b$/);
  const below = out.slice(at + 1, at + 4).join(" ");
  t.match(below, /above 271,999: 8\/30 b;.* flex: 2\/10 c;.* image_generation: .* c;.* version [0-9a-f]{12}$/);
  t.match(out[at + 4], /^gpt +openai:gpt-5\.4-mini +7 d +- +- +- +8 d$/);
  t.match(out.slice(-7, -5), [/^own +own:x +- .*-$/, /^ {4}unpriced$/]);
  t.match(out.slice(-4), [/^a {2}demo$/, /^b {2}genai-prices \S+$/, /^c {2}litellm \S+$/, /^d {2}gateway\.yaml$/]);
  t.ok(out.every((line) => line.length <= 100));
});

t.test("a price guessed from a name is marked", async (t) => {
  const { out } = await models(t, "--prices");
  t.match(out.join("\n"), /anthropic:claude-sonnet-4-5-foo .*\n {4}guessed: the price of a model with a similar name;/);
});

t.test("JSON has the complete result", async (t) => {
  const { out } = await models(t, "--json");
  const [echo, gpt, , own] = JSON.parse(out.join("\n")) as unknown[];
  t.match(echo, { id: "echo", targets: [{ price: { sources: { input: "demo" }, terms: { input: 0, output: 0 } } }] });
  t.match(gpt, {
    targets: [
      {
        ...{ target: "openai:gpt-5.6", off: "NONE is not set", output: { value: 128_000, source: /litellm/ } },
        price: { sources: { input: /genai-prices/, flex: /litellm/ }, terms: { input: 4, flex: { input: 2 } } },
      },
      {
        price: { sources: { input: "gateway.yaml", output: "gateway.yaml" }, terms: { input: 7, output: 8 } },
      },
    ],
  });
  t.match(own, { targets: [{ price: null, context: { value: 8000, source: "gateway.yaml" } }] });
});

t.test("an unknown argument is a usage error", async (t) => {
  t.match(await models(t, "--prise"), { code: 2, err: /usage: .*models/s });
  t.match(help, /models/);
});
