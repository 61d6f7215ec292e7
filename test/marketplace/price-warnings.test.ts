import t from "tap";
import { loadConfig } from "../../src/config/load.ts";
import { priceWarnings } from "../../src/marketplace/price-warnings.ts";
import { extensions } from "../config/fixture.ts";

const YAML = `providers:
  demo: { url: "demo:" }
  anthropic: { url: https://api.anthropic.com/v1, protocol: anthropic-messages }
  own: { url: http://127.0.0.1:1/v1, protocol: openai-chat }
models:
  free: { targets: [demo:echo] }
  known: { targets: [anthropic:claude-opus-5] }
  guessed: { targets: [anthropic:claude-sonnet-4-5-foo] }
  unknown: { targets: [own:x] }
  said: { price: { input: 1, output: 2 }, targets: [own:x] }
`;

t.test("prices that are unknown or guessed are reported with their place and the lines to write", async (t) => {
  const folder = t.testdir({ "gateway.yaml": YAML });
  const found = await priceWarnings(await loadConfig(`${folder}/gateway.yaml`, extensions, {}));
  t.match(found, [
    { line: 8, column: 3, severity: "warning", message: /^the price of anthropic:claude-sonnet-4-5-foo is guessed/ },
    {
      line: 9,
      column: 3,
      severity: "warning",
      message: /^the price of own:x is unknown, .*give the model "unknown" a price/,
    },
  ]);
  t.equal(found.length, 2);
});

t.test("a price that must be meant for another number of tokens is told", async (t) => {
  const yaml = YAML.replace("price: { input: 1,", "price: { input: 2500,");
  const folder = t.testdir({ "gateway.yaml": yaml });
  const found = await priceWarnings(await loadConfig(`${folder}/gateway.yaml`, extensions, {}));
  t.match(found.at(-1), { line: 10, severity: "warning", message: /^own:x costs \$2500 per million input tokens; / });
  t.equal(found.length, 3);
});

t.test("a price without output, or without input, is reported, except of a model without texts", async (t) => {
  const messages = async (price: string, more = "") => {
    const yaml = YAML.replace("{ input: 1, output: 2 }", `${price}${more}`);
    const folder = t.testdir({ "gateway.yaml": yaml });
    return (await priceWarnings(await loadConfig(`${folder}/gateway.yaml`, extensions, {}))).slice(2);
  };
  t.match(await messages("{ input: 1 }"), [
    {
      line: 10,
      severity: "warning",
      message: /^the price of own:x has no output, .*; add output to the price, or 0 if .* can: \[embeddings\]/,
    },
  ]);
  t.match(await messages("{ output: 1, cached: 2 }"), [{ message: /has no input, / }]);
  t.same(await messages("{ input: 1 }", ", can: [embeddings]"), []);
  t.same(await messages("{ input: 1 }", ", can: [images, vision]"), []);
  t.match(await messages("{ input: 1 }", ", can: [images, tools]"), [{ message: /has no output/ }]);
  t.same(await messages("{ request: 1 }"), []);
});

t.test("abilities that a model of two targets has at only one of them exempt neither price", async (t) => {
  const warnings = async (targets: string) => {
    const yaml = `providers:
  openai: { url: https://api.openai.com/v1, protocol: openai-chat }
  own: { url: http://127.0.0.1:1/v1, protocol: openai-chat }
models:
  vectors: { price: { input: 1 }, targets: [${targets}] }
`;
    const folder = t.testdir({ "gateway.yaml": yaml });
    return priceWarnings(await loadConfig(`${folder}/gateway.yaml`, extensions, {}));
  };
  t.same(await warnings("openai:text-embedding-3-small"), []);
  t.match(await warnings("openai:text-embedding-3-small, own:x"), [
    { message: /openai:text-embedding-3-small has no output/ },
    { message: /own:x has no output/ },
  ]);
});
