import t, { type Test } from "tap";
import { help, run } from "../../src/cli/models.ts";
import { loadConfig } from "../../src/config/load.ts";
import { vocabulary } from "../config/fixture.ts";

const YAML = `providers:
  demo: { url: "demo:" }
  openai: { url: https://api.openai.com/v1, credential: $NONE, protocol: openai-chat }
  own: { url: http://127.0.0.1:1/v1, protocol: openai-chat }
models:
  echo: { targets: [demo:echo] }
  gpt: { targets: [openai:gpt-5.6, { to: openai:gpt-5.4-mini, price: { input: 7, output: 8 } }] }
  own: { context: 8k, targets: [own:x] }
`;

async function models(t: Test, ...args: string[]) {
  const folder = t.testdir({ "gateway.yaml": YAML });
  const config = await loadConfig(`${folder}/gateway.yaml`, vocabulary, {});
  const out: string[] = [];
  const err: string[] = [];
  const io = { out: (line: string) => out.push(line), err: (line: string) => err.push(line), env: {}, folder };
  const code = await run(args, io, config);
  return { code, out, err: err.join("\n") };
}

t.test("each target is a line with what it takes, and who says so", async (t) => {
  const { out, code } = await models(t);
  t.equal(code, 0);
  t.match(out[2], /^gpt +openai:gpt-5\.6 +1,050,000 +128,000 +tools .*genai-prices \S+, litellm \S+$/);
  t.match(out[4], /^own +own:x +8,000 +- +- +gateway\.yaml$/);
});

t.test("prices are told with their source; what is unpriced says so", async (t) => {
  const { out } = await models(t, "--prices");
  t.match(out[1], /^echo +demo:echo +0 +- +- +- +0 +- +demo /);
  t.match(
    out[2],
    /^gpt +openai:gpt-5\.6 +4 +0\.4 +5 +10 +20 +above 271,999: 8\/30;.*flex: 2\/10.*genai-prices \S+ with litellm \S+ +[0-9a-f]{12}$/,
  );
  t.match(out[3], /^gpt +openai:gpt-5\.4-mini +7 +- +- +- +8 +- +gateway\.yaml +[0-9a-f]{12}$/);
  t.match(out[4], /^own +own:x +- .* unpriced +-$/);
});

t.test("JSON has all of it", async (t) => {
  const { out } = await models(t, "--json");
  const [echo, gpt, own] = JSON.parse(out.join("\n")) as unknown[];
  t.match(echo, { id: "echo", targets: [{ price: { source: "demo", terms: { input: 0, output: 0 } } }] });
  t.match(gpt, {
    targets: [
      { target: "openai:gpt-5.6", off: "NONE is not set", output: { value: 128_000, source: /litellm/ } },
      { price: { source: "gateway.yaml", terms: { input: 7, output: 8 } } },
    ],
  });
  t.match(own, { targets: [{ price: null, context: { value: 8000, source: "gateway.yaml" } }] });
});

t.test("what it does not understand is a usage error", async (t) => {
  t.match(await models(t, "--prise"), { code: 2, err: /usage: .*models/s });
  t.match(help, /models/);
});
