import t from "tap";
import { extractLiteLlm, type LiteLlmRow, packLiteLlm } from "../../src/prices/litellm-extract.ts";
import { unpackLiteLlm } from "../../src/prices/litellm-table.ts";

const ROW: LiteLlmRow = {
  litellm_provider: "gemini",
  mode: "chat",
  input_cost_per_token: 1.0000000000000001e-7,
  input_cost_per_token_above_200k_tokens: 4e-7,
  input_cost_per_token_batches: 5e-8,
  output_cost_per_token: 2e-6,
  output_cost_per_token_batches: 1e-6,
  max_input_tokens: 1000,
  max_output_tokens: 100,
  supports_function_calling: true,
  supports_vision: false,
  rpm: 5,
};

const of = (name: string, row: LiteLlmRow) => extractLiteLlm({ [name]: row }, "1").models;

t.test("a row is reduced to context, output, abilities and prices per million tokens", async (t) => {
  t.same(of("gemini/g", ROW), {
    "google:g": {
      context: 1000,
      output: 100,
      can: ["tools"],
      price: { input: 0.1, output: 2, above: [{ tokens: 200_000, input: 0.4 }], batch: { input: 0.05, output: 1 } },
    },
  });
});

t.test("rows of other vendors, other kinds and without the vendor's prefix are left out", async (t) => {
  t.same(of("gemini/g", { ...ROW, litellm_provider: "somebody" }), {});
  t.same(of("gemini/g", { ...ROW, mode: "video_generation" }), {});
  t.same(of("g", ROW), {});
});

t.test("a price is complete or none: output must have one too, except for embeddings", async (t) => {
  const { output_cost_per_token: _, ...half } = ROW;
  t.equal(of("gemini/g", half)["google:g"]?.price, undefined);
  t.match(of("gemini/g", { ...half, mode: "embedding" })["google:g"], {
    price: { input: 0.1 },
    can: ["tools", "embeddings"],
  });
});

t.test("searches that are free up to some number have no price, as their number is unknown", async (t) => {
  const search = { search_context_cost_per_query: { search_context_size_medium: 0.01 } };
  t.equal(of("gemini/g", { ...ROW, ...search })["google:g"]?.price?.web_search, 0.01);
  const free = { ...search, search_free_requests: { count: 5000 } };
  t.equal(of("gemini/g", { ...ROW, ...free })["google:g"]?.price?.web_search, undefined);
});

t.test(
  "a model whose images have no tokens has a price for each, by quality and size where the rows differ",
  async (t) => {
    const row = { litellm_provider: "azure", mode: "image_generation" };
    const cut = extractLiteLlm(
      {
        "azure/plain": { ...row, output_cost_per_image: 0.04 },
        "azure/standard/1024-x-1024/dall-e-3": { ...row, input_cost_per_pixel: 4e-8 },
        "azure/hd/1024-x-1792/dall-e-3": { ...row, input_cost_per_pixel: 7e-8 },
        "azure/standard/1024-x-1024/dall-e-2": { ...row, input_cost_per_pixel: 0 },
        "azure/gpt-image-1": { ...row, input_cost_per_token: 5e-6, output_cost_per_image_token: 4e-5 },
        "azure/low/1024-x-1024/gpt-image-1": { ...row, input_cost_per_pixel: 1e-8 },
      },
      "1",
    ).models;
    t.same(cut["azure:plain"]?.price, { image: 0.04 });
    const standard = Math.round(4e-8 * 1024 * 1024 * 1e6) / 1e6;
    const hd = Math.round(7e-8 * 1024 * 1792 * 1e6) / 1e6;
    t.same(cut["azure:dall-e-3"]?.price, {
      image: { "standard 1024x1024": standard, standard, "1024x1024": standard, "": standard, "hd 1024x1792": hd },
    });
    t.equal(cut["azure:dall-e-2"], undefined, "a price of 0 is none");
    t.equal(cut["azure:gpt-image-1"]?.price?.image, undefined, "its pictures are tokens");
    t.notOk(Object.keys(cut).some((name) => name.includes("-x-")));
  },
);

t.test("equal models are stored once, and each name finds its own again", async (t) => {
  const regional = { ...ROW, litellm_provider: "bedrock" };
  const { models } = extractLiteLlm({ "eu.m": regional, "us.m": regional, "gemini/g": { ...ROW, rpd: 1 } }, "1");
  t.equal(Object.keys(models).length, 3);
  const stored = packLiteLlm({ version: "1", models });
  t.ok(stored.models.length < 3);
  t.same(unpackLiteLlm(JSON.parse(JSON.stringify(stored))), { version: "1", models });
});
