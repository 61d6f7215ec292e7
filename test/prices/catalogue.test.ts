import t from "tap";
import { Catalogue } from "../../src/prices/catalogue.ts";

const OPENAI = { url: new URL("https://api.openai.com/v1") };
const ANTHROPIC = { url: new URL("https://api.anthropic.com/v1") };
const NOBODY = { url: new URL("http://127.0.0.1:1/v1") };
const now = Date.UTC(2026, 10, 22, 12);

t.test(
  "a model has the first table's price, with tiers of the second where both agree on the standard one",
  async (t) => {
    const catalogue = await Catalogue.for([OPENAI]);
    const { prices, context, output, can } = catalogue.find(OPENAI, "gpt-5.6");
    t.match(prices?.versionAt(now)?.price, {
      input: 4,
      cached: 0.4,
      output: 20,
      flex: { input: 2 },
      priority: { output: 40 },
    });
    t.match(prices?.versionAt(now), {
      source: /^genai-prices \d\S+ with litellm \d/,
      sources: {
        input: /^genai-prices \S+$/,
        cached: /^genai-prices \S+$/,
        flex: /^litellm /,
        cache_write_1h: /^litellm /,
      },
    });
    t.match(context, { value: 1_050_000, source: /^genai-prices / });
    t.match(output, { value: 128_000, source: /^litellm / });
    t.ok(can?.value.includes("tools"));
    const before = prices?.versionAt(Date.UTC(2026, 7, 1));
    t.match(before, { price: { input: 5 }, sources: { input: /^genai-prices / } });
    t.equal(before?.price.flex, undefined, "the second table knows nothing of earlier prices");
  },
);

t.test("what the first table lacks, or only guesses, is read from the second one", async (t) => {
  const catalogue = await Catalogue.for([ANTHROPIC]);
  t.match(catalogue.find(ANTHROPIC, "claude-haiku-5-5").prices?.versionAt(now)?.source, /^litellm \S+$/);
  const guessed = catalogue.find(ANTHROPIC, "claude-sonnet-4-5-foo");
  t.equal(guessed.prices?.guessed, true);
  t.equal(guessed.context, undefined, "a guess is not a fact");
});

t.test("aliases that move to newer models have the price in the newer table", async (t) => {
  const mistral = { url: new URL("https://api.mistral.ai/v1") };
  const { prices } = (await Catalogue.for([mistral])).find(mistral, "mistral-large-latest");
  t.match(prices?.versionAt(now)?.source, /^litellm \S+$/);
});

t.test("an unknown model is unpriced, and the built-in provider is free", async (t) => {
  const catalogue = await Catalogue.for([OPENAI, NOBODY]);
  t.same(catalogue.find(OPENAI, "gpt-9-none"), {});
  t.same(catalogue.find(NOBODY, "gpt-5.6"), {});
  t.same((await Catalogue.for([])).find({ url: "demo:" }, "echo").prices?.versionAt(now)?.price, {
    input: 0,
    output: 0,
  });
});

t.test("a provider with a configured vendor has the vendor's prices at any address", async (t) => {
  const proxy = { ...NOBODY, vendor: "openai" };
  const catalogue = await Catalogue.for([proxy]);
  t.equal(catalogue.find(proxy, "gpt-5.4-mini").prices?.versionAt(now)?.price.input, 0.75);
});

t.test(
  "a model of OpenAI's has the rates of the models that its tool draws with, and an image without tokens its own",
  async (t) => {
    const catalogue = await Catalogue.for([OPENAI]);
    const { image_generation = {} } = catalogue.find(OPENAI, "gpt-5.6").prices?.versionAt(now)?.price ?? {};
    t.match(image_generation["gpt-image-1.5"], { input: 5, input_image: 8, output: 10, output_image: 32 });
    t.equal(catalogue.find(OPENAI, "gpt-image-1.5").prices?.versionAt(now)?.price.image_generation, undefined);
    const xai = { url: new URL("https://api.x.ai/v1") };
    const grok = (await Catalogue.for([xai])).find(xai, "grok-imagine-image");
    t.same(grok.prices?.versionAt(now)?.price, { image: 0.02 });
  },
);

/** Returns the price in force of a vendor's model. */
async function priceOf(vendor: string, model: string) {
  const provider = { ...NOBODY, vendor };
  return (await Catalogue.for([provider])).find(provider, model).prices?.versionAt(now)?.price;
}

t.test("searches of a model that can nothing else have the price of its own row", async (t) => {
  t.equal((await priceOf("openai", "gpt-4o-search-preview"))?.web_search, 0.025);
  t.equal((await priceOf("openai", "gpt-4o-mini-search-preview"))?.web_search, 0.025, "not that of gpt-4o-mini");
  t.equal((await priceOf("openai", "gpt-4o-mini"))?.web_search, 0.01);
  t.equal((await priceOf("openai", "gpt-5-search-api"))?.web_search, 0.01);
  t.match(await priceOf("perplexity", "sonar"), { request: 0.012, web_search: 0 });
});

t.test("a model of audio has audio's rates, or no price", async (t) => {
  t.match(await priceOf("openai", "gpt-4o-audio-preview"), { input: 2.5, input_audio: 40, output_audio: 80 });
  t.match(await priceOf("openai", "gpt-4o-mini-audio-preview"), { input_audio: 10, output_audio: 20 });
  t.match(await priceOf("openai", "gpt-audio"), { input_audio: 32, output_audio: 64 });
  t.equal(await priceOf("openrouter", "openai/gpt-audio"), undefined);
});

t.test("an hour's cache write is as much cheaper in a tier as the others", async (t) => {
  t.match(await priceOf("anthropic", "claude-sonnet-4-5"), { cache_write_1h: 6, batch: { cache_write_1h: 3 } });
  t.match(await priceOf("anthropic", "claude-opus-5"), { cache_write_1h: 10, batch: { cache_write_1h: 5 } });
  const batch = { above: [{ cache_write: 5, cache_write_1h: 10 }] };
  t.match(await priceOf("openai", "gpt-5.6"), { batch });
});

t.test(
  "an hour's cache write of Claude costs twice the input where a reseller's table has only the short one",
  async (t) => {
    const reseller = (vendor: string) => ({ vendor, url: new URL("https://llm.example.com") });
    const google = reseller("google");
    const catalogue = await Catalogue.for([google]);
    const termsOf = (vendor: string, model: string) => catalogue.find(reseller(vendor), model).prices?.versionAt(now);
    t.match(termsOf("google", "claude-opus-5"), {
      price: { input: 5, cache_write: 6.25, cache_write_1h: 10 },
      sources: { cache_write: /^genai-prices \S+$/, cache_write_1h: /^twice the input/ },
    });
    t.match(termsOf("google", "claude-sonnet-4-5")?.price, {
      cache_write_1h: 6,
      above: [{ tokens: 200_000, cache_write: 7.5, cache_write_1h: 12 }],
    });
    t.equal(termsOf("openrouter", "anthropic/claude-haiku-4.5")?.price.cache_write_1h, 2);
    t.equal(termsOf("aws", "global.anthropic.claude-sonnet-5-v1:0")?.price.cache_write_1h, 4);
    t.equal(termsOf("anthropic", "claude-2")?.price.cache_write_1h, undefined, "no writes, no long ones");
    t.equal(termsOf("openrouter", "google/gemini-2.5-pro")?.price.cache_write_1h, undefined);
  },
);

t.test("a tier's reasoning costs as its output, where the standard one does", async (t) => {
  t.match(await priceOf("google", "gemini-4-argon"), { reasoning: undefined, flex: { output: 5 } });
  t.match(await priceOf("perplexity", "sonar-deep-research"), { output: 8, reasoning: 3 });
});
