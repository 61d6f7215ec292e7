import t from "tap";
import { cost, isPriced, type Price, type Rates } from "../../src/core/price.ts";
import type { Usage } from "../../src/core/usage.ts";
import { dice } from "../support/dice.ts";

const usage = (input: Usage["in"], out: Usage["out"] = {}, more: Partial<Usage> = {}): Usage => ({
  in: input,
  out,
  raw: undefined,
  ...more,
});

t.test("cached and written tokens are subtracted from the input before it is priced", async (t) => {
  const counted = usage({ total: 1000, cached: 600, write: { "5m": 100, "1h": 50 } }, { total: 200 });
  const price = { input: 3, cached: 0.3, cache_write: 3.75, output: 15 };
  t.equal(cost(counted, price), 250 * 3000 + 600 * 300 + 150 * 3750 + 200 * 15_000);
});

t.test("tokens written for an hour have their own price", async (t) => {
  const counted = usage({ total: 100, write: { "5m": 30, "1h": 20, unsplit: 10 } });
  const price = { input: 1, cache_write: 2, cache_write_1h: 4 };
  t.equal(cost(counted, price), 40 * 1000 + 40 * 2000 + 20 * 4000);
  t.equal(cost(usage({ total: 9, write: { "30m": 4, "12h": 5 } }), price), 4 * 2000 + 5 * 4000, "and for longer");
});

t.test("a part without its own price has that of the kind it belongs to", async (t) => {
  t.equal(cost(usage({ total: 10, cached: 4, audio: 3, image: 2, video: 1 }), { input: 2 }), 20_000);
  t.equal(cost(usage({}, { total: 10, reasoning: 5, audio: 2, image: 1 }), { output: 7 }), 70_000);
  t.equal(cost(usage({ total: 10, write: { "1h": 10 } }), { input: 2, cache_write: 3 }), 30_000);
});

t.test("a provider that reports more parts than the total is not charged twice", async (t) => {
  t.equal(cost(usage({ total: 10, cached: 50 }), { input: 2, cached: 1 }), 10_000);
  t.equal(cost(usage({ total: 10, cached: 8, audio: 8 }), { input: 2, cached: 1, input_audio: 9 }), 8000 + 2 * 9000);
  t.equal(cost(usage({}, { total: 3, reasoning: 5 }), { output: 2, reasoning: 1 }), 3000);
  const seen = usage({ total: 10, cached: 8, cachedImage: 7 });
  t.equal(
    cost(seen, { input: 2, cached: 1, cached_image: 1, input_image: 9 }),
    8 * 1000 + 2 * 2000,
    "nor less than nothing, where the total is not reported",
  );
});

t.test("audio and images have their own prices, and others when read from the cache", async (t) => {
  const watched = usage({ total: 100, cached: 50, cachedVideo: 50, video: 60 });
  t.equal(cost(watched, { input: 1, cached: 0.1, input_video: 5 }), 40 * 1000 + 50 * 100 + 10 * 5000);
  const price = { input: 4, cached: 0.4, output: 16, input_audio: 32, cached_audio: 0.5, output_audio: 64 };
  const counted = usage({ total: 100, audio: 60, cached: 30, cachedAudio: 20 }, { total: 50, audio: 40 });
  t.equal(cost(counted, price), 30 * 4000 + 10 * 400 + 40 * 32_000 + 20 * 500 + 10 * 16_000 + 40 * 64_000);
  const drawn = { input: 5, input_image: 8, output: 10, output_image: 32, input_video: 12 };
  t.equal(
    cost(usage({ total: 30, image: 10, video: 5 }, { total: 9, image: 7 }), drawn),
    15 * 5000 + 10 * 8000 + 5 * 12_000 + 2 * 10_000 + 7 * 32_000,
  );
});

t.test("more input tokens than a tier's bound make the whole request dearer, output included", async (t) => {
  const price = {
    input: 2,
    cached: 0.2,
    output: 12,
    above: [
      { tokens: 200, input: 4, output: 18 },
      { tokens: 500, input: 5 },
    ],
  };
  t.equal(cost(usage({ total: 200, cached: 100 }, { total: 1 }), price), 100 * 2000 + 100 * 200 + 12_000);
  t.equal(cost(usage({ total: 201 }, { total: 1 }), price), 201 * 4000 + 18_000);
  t.equal(cost(usage({ total: 501, cached: 1 }, { total: 1 }), price), 500 * 5000 + 200 + 12_000);
});

t.test("the tier that the provider reports has its own prices; any other has the default", async (t) => {
  const price = {
    ...{ input: 2, output: 10, cached: 1, priority: { input: 4, output: 20, above: [{ tokens: 10, input: 8 }] } },
    flex: { input: 1 },
  };
  const of = (tier: string, total = 10) => cost(usage({ total }, { total: 1 }, { tier }), price);
  t.same([of("default"), of("priority"), of("PRIORITY"), of("flex")], [30_000, 60_000, 60_000, 20_000]);
  t.equal(of("priority", 11), 11 * 8000 + 20_000, "with steps of its own");
});

t.test("requests and web searches are added", async (t) => {
  t.equal(cost(usage({}), { request: 0.01 }), 10_000_000);
  const searched = usage({ total: 1 }, {}, { serverTools: { web_search_requests: 3, web_fetch_requests: 9 } });
  t.equal(cost(searched, { input: 1, web_search: 0.01 }), 30_001_000);
  t.equal(cost(usage({ total: 5 }, { total: 5 }), { input: 0, output: 0 }), 0);
});

/** Reckons in whole numbers of any size, from the price as it is written. */
function exact(counts: [tokens: number, usdPerMillion: number][]): bigint {
  const pico = counts.reduce(
    (sum, [tokens, usd]) => sum + BigInt(tokens) * BigInt(usd.toFixed(6).replace(".", "")),
    0n,
  );
  return (pico + 500n) / 1000n;
}

t.test("no rounding error accumulates: arithmetic with big integers gives the same", async (t) => {
  const random = dice(42);
  for (let n = 0; n < 5000; n++) {
    const rate = () => random(200_000_000) / 1e6;
    const price = { input: rate(), cached: rate(), cache_write: rate(), output: rate() } satisfies Rates & Price;
    const size = [100, 1_000_000, 100_000_000][n % 3] as number;
    const [plain, cached, written, out] = [random(size), random(size), random(size), random(size)];
    const counted = usage({ total: plain + cached + written, cached, write: { "5m": written } }, { total: out });
    const wanted = exact([
      [plain, price.input],
      [cached, price.cached],
      [written, price.cache_write],
      [out, price.output],
    ]);
    if (BigInt(cost(counted, price)) !== wanted) t.fail(`${JSON.stringify({ price, counted })} costs ${wanted}`);
  }
  t.equal(cost(usage({ total: 1 }), { input: 0.0005 }), 1, "halves are rounded up");
  t.equal(cost(usage({ total: 3 }), { input: 0.0001 }), 0);
});

t.test("an image costs by quality and size, besides its tokens; an unlisted combination has no price", async (t) => {
  const price: Price = { image: { "": 0.04, "hd 1024x1792": 0.12 }, image_edit: 0.07 };
  const of = (images: NonNullable<Usage["images"]>) => {
    const counted = usage({}, {}, { images });
    return isPriced(counted, price, true) ? cost(counted, price) : undefined;
  };
  t.equal(of({ count: 3 }), 3 * 40_000_000);
  t.equal(of({ count: 1, size: "1024x1792", quality: "hd" }), 120_000_000);
  t.equal(of({ count: 1, size: "1024x1792" }), undefined, "never 0");
  t.equal(of({ count: 2, size: "1x1", edited: true }), 140_000_000);
  t.notOk(isPriced(usage({}, {}, { images: { count: 1, edited: true } }), { image: 0.02 }, true), "others are unknown");
  const unknown = { images: { count: 2, size: "9x9" } };
  t.equal(cost(usage({}, {}, unknown), price), 240_000_000, "which budgets count as the dearest");
  t.equal(cost(usage({}, {}, { images: { count: 1, edited: true } }), { image: 0.02 }), 20_000_000);
  t.notOk(isPriced(usage({ total: 5 }), { image: 0.02 }, true), "nor are tokens, where pictures alone have a price");
  const both = usage({ total: 10 }, { total: 5 }, { images: { count: 1 } });
  t.ok(isPriced(both, { input: 1, output: 2 }, true), "where tokens are charged, pictures are in them");
  t.equal(cost(both, { input: 1, output: 2 }), 20_000);
});

t.test("images of a tool cost what the model costs that generates them", async (t) => {
  const price: Price = {
    input: 1,
    output: 2,
    image_generation: { painter: { input: 5, output: 10, output_image: 32 } },
  };
  const drawn = { model: "painter", in: { total: 10 }, out: { total: 100, image: 90 } };
  const counted = usage({ total: 3 }, { total: 4 }, { drawn });
  t.equal(cost(counted, price), 3000 + 8000 + 10 * 5000 + 10 * 10_000 + 90 * 32_000);
  t.ok(isPriced(counted, price, true));
  t.notOk(isPriced(usage({ total: 3 }, {}, { drawn: { ...drawn, model: "other" } }), price, false));
  t.notOk(
    isPriced(usage({ total: 3 }, {}, { drawn: { in: {}, out: {} } }), price, false),
    "nor where the model is unknown",
  );
  t.ok(isPriced(usage({ total: 3 }, {}, { drawn }), { input: 1, image_generation: { "*": { input: 5 } } }, true));
});

t.test(
  "a public table whose tier lacks a rate, or those for many tokens, leaves them unknown in that tier",
  async (t) => {
    const price: Price = {
      ...{ input: 2, cached: 0.2, cache_write: 2.5, cache_write_1h: 4, output: 10 },
      above: [{ tokens: 1000, input: 4, output: 15 }],
      batch: { input: 1, cache_write: 1.25, output: 5 },
      priority: { input: 3, cached: 0.3, output: 15, above: [{ tokens: 1000, input: 6, output: 20 }] },
    };
    const known = (tier: string, input: Usage["in"], listed = true) =>
      isPriced(usage(input, { total: 5, reasoning: 2 }, { tier }), price, listed);
    t.ok(known("batch", { total: 1000, write: { "5m": 10 } }), "what no tier has is as its more general kind");
    t.notOk(known("batch", { total: 1000, write: { "1h": 10 } }));
    t.notOk(known("batch", { total: 1000, cached: 1 }));
    t.notOk(known("batch", { total: 1001 }), "more than a step that the tier lacks");
    t.ok(known("priority", { total: 1001, cached: 1 }));
    t.ok(known("standard", { total: 1001, cached: 1, write: { "1h": 10 } }));
    t.ok(known("batch", { total: 1001, cached: 1 }, false), "an operator's own price has the standard rate");
  },
);

t.test("a price without output leaves an answer's text unknown, and one without input its prompt", async (t) => {
  const known = (price: Price, input: Usage["in"], out: Usage["out"]) => isPriced(usage(input, out), price, false);
  t.notOk(known({ input: 1 }, { total: 5 }, { total: 3 }));
  t.notOk(known({ input: 1 }, { total: 5 }, { total: 3, image: 3 }));
  t.ok(known({ input: 1, output_image: 2 }, { total: 5 }, { total: 3, image: 3 }));
  t.ok(known({ input: 1 }, { total: 5 }, { total: 0 }), "embeddings");
  t.notOk(known({ output: 1 }, { total: 5 }, { total: 3 }));
  t.ok(known({ output: 1, cached: 2 }, { total: 5, cached: 5 }, { total: 3 }));
  t.ok(known({ request: 1 }, { total: 5 }, { total: 3 }), "tokens that cost nothing, as each request costs");
});

t.test("a public table without a tier, or without the price of a tool, leaves it unknown", async (t) => {
  const price: Price = { input: 1, flex: { input: 0.5 } };
  const known = (tier: string, listed = true) => isPriced(usage({ total: 1 }, {}, { tier }), price, listed);
  for (const tier of ["default", "standard", "flex", "FLEX", "ON_DEMAND", "ON_DEMAND_FLEX", "", "on_demand"])
    t.ok(known(tier), tier);
  for (const tier of ["priority", "batch", "ON_DEMAND_PRIORITY", "scale", "PROVISIONED_THROUGHPUT", "ultrafast"])
    t.notOk(known(tier), tier);
  t.ok(known("priority", false), "a tier that the operator omits has the same price");
  const used = (serverTools: Record<string, number>, more: Price = {}) =>
    isPriced(usage({ total: 1 }, {}, { serverTools }), { ...price, ...more }, true);
  t.notOk(used({ web_search_requests: 1 }));
  t.ok(used({ web_search_requests: 1, web_fetch_requests: 2 }, { web_search: 0.01 }));
  t.ok(used({ x_search_calls: 0 }));
  t.notOk(used({ x_search_calls: 1 }, { web_search: 0.01 }));
});
