import t from "tap";
import { cutOf, type LiteLlmRow } from "../../src/prices/cut.ts";

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

const of = (name: string, row: LiteLlmRow) => cutOf({ [name]: row }, "1").models;

t.test("a row is cut to context, output, abilities and prices for a million tokens", async (t) => {
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

t.test("a price is whole or none: what comes out must have one too, but for embeddings", async (t) => {
  const { output_cost_per_token: _, ...half } = ROW;
  t.equal(of("gemini/g", half)["google:g"]?.price, undefined);
  t.match(of("gemini/g", { ...half, mode: "embedding" })["google:g"], {
    price: { input: 0.1 },
    can: ["tools", "embeddings"],
  });
});

t.test("searches that are free up to some number have no price, for nobody knows how many there were", async (t) => {
  const search = { search_context_cost_per_query: { search_context_size_medium: 0.01 } };
  t.equal(of("gemini/g", { ...ROW, ...search })["google:g"]?.price?.web_search, 0.01);
  const free = { ...search, search_free_requests: { count: 5000 } };
  t.equal(of("gemini/g", { ...ROW, ...free })["google:g"]?.price?.web_search, undefined);
});
