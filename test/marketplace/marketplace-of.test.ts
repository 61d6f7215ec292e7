import t from "tap";
import type { ConfiguredModel } from "../../src/config/types.ts";
import { buildMarketplace } from "../../src/marketplace/marketplace-of.ts";
import { Catalogue } from "../../src/prices/catalogue.ts";
import { providerOf } from "../support/provider.ts";

const providers = new Map(
  [
    providerOf({ name: "openai", url: new URL("https://api.openai.com/v1") }),
    providerOf({ name: "google", url: new URL("https://generativelanguage.googleapis.com/v1beta") }),
    providerOf({ name: "own" }),
  ].map((provider) => [provider.name, provider]),
);
const catalogue = await Catalogue.for(providers.values());

const only = (targets: ConfiguredModel["targets"], more: Partial<ConfiguredModel> = {}) => {
  const model: ConfiguredModel = {
    ...{ id: "m", name: "m", aliases: [], created: 0, balance: "weighted", fallback: [], targets, ...more },
    place: { file: "gateway.yaml", line: 1, column: 1 },
  };
  return buildMarketplace([model], providers, catalogue).models[0];
};
const target = (provider: string, model: string, more = {}) => ({ provider, model, weight: 1, ...more });

t.test("price, context, output and abilities in the file take precedence over the tables", async (t) => {
  const own = { context: 5, output: 4, can: ["vision"] };
  const model = only([target("openai", "gpt-5.4-mini", { price: { input: 9 }, facts: { output: 4 } })], own);
  t.match(model, { context: 5, output: 4, capabilities: ["vision"] });
  t.same(model?.targets[0]?.prices?.versionAt(0)?.price, { input: 9 });
  t.equal(model?.targets[0]?.prices?.versionAt(0)?.source, "gateway.yaml");
  t.equal(model?.targets[0]?.facts?.output, 4);
});

t.test("where the file sets none, the tables apply, each target for itself", async (t) => {
  const model = only([target("openai", "gpt-5.4-mini"), target("google", "gemini-3.6-flash")]);
  t.same(
    model?.targets.map(({ prices, facts }) => [prices?.versionAt(Date.UTC(2026, 10, 22))?.price.output, facts?.output]),
    [
      [4.5, 128_000],
      [3.75, 65_536],
    ],
  );
  t.match(model, { context: 400_000, output: 65_536 }, "the minimum of all");
  t.notOk(model?.capabilities.includes("audio"), "the common capabilities of all");
  t.ok(model?.capabilities.includes("tools"));
});

t.test(
  "cache marks are known to be accepted only at OpenAI itself from GPT-5.6 on, or where the file says so",
  async (t) => {
    const takes = (provider: string, more = {}, name = "m") =>
      only([target(provider, name, more)])?.targets[0]?.facts?.cache_marks;
    t.same([takes("openai"), takes("own")], [true, undefined]);
    t.same(
      [takes("openai", {}, "gpt-5.1"), takes("openai", { facts: { cache_marks: true } }, "gpt-5.1")],
      [undefined, true],
    );
    t.same(
      [takes("openai", { facts: { cache_marks: false } }), takes("own", { facts: { cache_marks: true } })],
      [false, true],
    );
  },
);

t.test("a model that accepts a thinking budget only gets one, unless the file sets it", async (t) => {
  const thinking = (provider: string, model: string, more = {}) =>
    only([target(provider, model, more)])?.targets[0]?.facts?.thinking;
  t.equal(thinking("google", "gemini-2.5-flash"), "budget");
  t.equal(thinking("google", "gemini-2.5-flash", { facts: { thinking: "level" } }), "level");
  t.equal(thinking("google", "gemini-3.6-flash"), undefined);
  t.equal(thinking("own", "gemini-2.5-flash"), undefined);
  t.equal(thinking("google", "gemini-2.5-flash-image"), undefined, "it does not think");
});

t.test("an unknown target has no price, and leaves the model's facts unknown", async (t) => {
  const model = only([target("openai", "gpt-5.4-mini"), target("own", "x")]);
  t.equal(model?.targets[1]?.prices, undefined);
  t.equal(model?.context, undefined);
  t.same(model?.capabilities, []);
});

t.test(
  "reasoning is turned off for a target where the tables know how, and gateway.yaml sets nothing else",
  async (t) => {
    const reasons = (provider: string, model: string, more: Partial<ConfiguredModel> = {}) =>
      only([target(provider, model)], more)?.targets[0]?.facts?.reasons;
    t.equal(reasons("openai", "gpt-4o"), false);
    t.equal(reasons("openai", "gpt-4.1-mini"), false);
    t.equal(reasons("openai", "gpt-4o", { can: ["vision"] }), false);
    t.equal(reasons("openai", "gpt-4o", { can: ["reasoning"] }), undefined);
    for (const known of ["gpt-5.4-mini", "o3", "computer-use-preview"])
      t.equal(reasons("openai", known), undefined, known);
    t.equal(reasons("openai", "nobody-knows-it"), undefined);
    t.equal(reasons("own", "gpt-4o"), undefined);
  },
);
