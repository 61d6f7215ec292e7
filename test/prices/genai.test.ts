import { calcPrice, waitForUpdate } from "@pydantic/genai-prices";
import t from "tap";
import { cost } from "../../src/core/price.ts";
import { PriceList } from "../../src/core/price-list.ts";
import { genaiPrices, genaiVersion } from "../../src/prices/genai.ts";
import { VENDORS } from "../../src/prices/vendors.ts";

const now = Date.UTC(2026, 10, 22, 12);

t.test("its version is available", async (t) => {
  t.match(genaiVersion(), /^\d+\.\d+\.\d+$/);
});

t.test("names of every kind resolve to the model that the package itself finds", async (t) => {
  const providers = (await waitForUpdate()) as { id: string; models: { id: string }[] }[];
  const all = [...new Set(providers.flatMap(({ models }) => models.map(({ id }) => id)))];
  const odd: string[] = [];
  for (const vendor of VENDORS) {
    const own = providers.find(({ id }) => id === vendor)?.models.map(({ id }) => id) ?? [];
    for (const id of [...own, ...all].filter((_, i) => i % 7 === 0))
      for (const name of [id, id.toUpperCase(), `${id}-20250929`, `${id}-2025-09-29`, `x-${id}:free`]) {
        const usage = { input_tokens: 0, output_tokens: 0 };
        const theirs = calcPrice(usage, name, { providerId: vendor, timestamp: new Date(now) });
        const { input_mtok: input } = theirs?.model_price ?? {};
        const found = genaiPrices(vendor, name);
        const price = found && new PriceList(found.prices, "x").versionAt(now)?.price;
        const same = !found || (theirs?.model.context_window || undefined) === found.context;
        if (!same || price?.input !== (typeof input === "object" ? input.base : input)) odd.push(`${vendor} ${name}`);
      }
  }
  t.same(odd, []);
});

t.test("a name that only begins like a model's is guessed, a model's name with a date is not", async (t) => {
  const guessed = (vendor: string, model: string) => genaiPrices(vendor, model)?.guessed;
  t.equal(guessed("openai", "gpt-5.6"), false, "another name of it");
  t.equal(guessed("anthropic", "claude-sonnet-4-5"), false);
  t.equal(guessed("anthropic", "claude-sonnet-4-5-20250929"), false);
  t.equal(guessed("anthropic", "claude-sonnet-4-5-foo"), true);
  t.equal(guessed("google", "gemini-3.6-flash"), false);
  t.equal(guessed("google", "gemini-3.6-flash-lite"), true);
  t.equal(genaiPrices("openai", "gpt-5.1-foo"), undefined);
  t.equal(genaiPrices("nobody", "gpt-5.1"), undefined);
});

t.test("what is priced per hour or page has no price per token", async (t) => {
  t.equal(genaiPrices("mistral", "mistral-ocr-2503"), undefined);
  t.equal(genaiPrices("groq", "whisper-large-v3"), undefined);
});

t.test("a future price has its day", async (t) => {
  const found = genaiPrices("google", "gemini-3.6-flash");
  const list = new PriceList(found?.prices ?? [], "x");
  t.equal(list.versionAt(Date.UTC(2026, 11, 31))?.price.input, 0.75);
  t.equal(list.versionAt(Date.UTC(2027, 0, 1))?.price.input, 1.5);
});

t.test("a time of day has its price", async (t) => {
  const list = new PriceList(genaiPrices("deepseek", "deepseek-v4-pro")?.prices ?? [], "x");
  t.equal(list.versionAt(Date.UTC(2026, 10, 22, 2))?.price.input, 1.32);
  t.equal(list.versionAt(Date.UTC(2026, 10, 22, 5))?.price.input, 0.66);
});

t.test(
  "every model of every vendor has the cost that the package itself computes, below and above its steps",
  async (t) => {
    const providers = (await waitForUpdate()) as { id: string; models: { id: string }[] }[];
    let checked = 0;
    const odd: string[] = [];
    for (const { id: vendor, models } of providers.filter(({ id }) => (VENDORS as string[]).includes(id)))
      for (const { id } of models) {
        const found = genaiPrices(vendor, id);
        const terms = found && new PriceList(found.prices, "x").versionAt(now);
        if (!terms) continue;
        for (const total of [1000, 150_000, 300_000]) {
          const usage = { input_tokens: total, cache_read_tokens: 300, output_tokens: 70 };
          const theirs = calcPrice(usage, id, { providerId: vendor, timestamp: new Date(now) })?.total_price ?? -1;
          const ours = cost({ in: { total, cached: 300 }, out: { total: 70 }, raw: undefined }, terms.price);
          checked++;
          if (Math.abs(ours - theirs * 1e9) > 1) odd.push(`${vendor} ${id} ${total}: ${ours}, not ${theirs * 1e9}`);
        }
      }
    t.ok(checked > 2000, `${checked} checked`);
    t.same(odd, []);
  },
);
