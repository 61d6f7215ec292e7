import t from "tap";
import { billedParts, WEB_SEARCH_NAME } from "../../src/cli/billed-parts.ts";
import { type PriceVersion, priceVersion } from "../../src/core/price-list.ts";
import type { Usage } from "../../src/core/usage.ts";
import { plainEntry } from "../support/plain-entry.ts";

const termsOf = (price: PriceVersion["price"]): PriceVersion => ({
  version: priceVersion(price),
  price,
  source: "gateway.yaml",
});
const small = termsOf({
  input: 1,
  output: 10,
  request: 0.5,
  web_search: 0.01,
  image_generation: { "*": { output: 40 } },
});
const large = termsOf({ input: 5, output: 50 });
const terms = (version: string | undefined) => [small, large].find((each) => each.version === version);

const parts = (usage: Partial<Usage>, cost: number | undefined, named: string[] = [], price = small.version) => {
  const all: Usage = { in: { total: 1000 }, out: { total: 100 }, raw: undefined, ...usage };
  const entry = plainEntry(1, { target: "p:small", usage: all, price, ...(cost === undefined ? {} : { cost }) });
  return billedParts("small", entry, terms, (name) => named.includes(name)).map(({ model, figures, unsettled }) => [
    ...[model, figures.tokensIn, figures.tokensOut, figures.cost, unsettled],
  ]);
};

t.test("usage of one model is attributed to no other", async (t) => {
  t.same(parts({}, 2_000_000), []);
  t.same(parts({ serverTools: { web_search_requests: 2 }, drawn: { in: {}, out: { total: 7 } } }, 22_000_000), []);
});

t.test(
  "another model that ran in addition has its own tokens, and its cost is subtracted from the response's",
  async (t) => {
    const besides = [{ in: { total: 200 }, out: { total: 20 }, model: "large", price: large.version }];
    t.same(parts({ besides }, 504_000_000), [
      ["large", 200, 20, 2_000_000, 0],
      ["small", 0, 0, -2_000_000, 0],
    ]);
  },
);

t.test("usage of the same model in addition adds tokens, and no cost", async (t) => {
  t.same(parts({ besides: [{ in: { total: 200 }, out: { total: 20 } }] }, 502_400_000), [
    ["small", 200, 20, 400_000, 0],
    ["small", 0, 0, -400_000, 0],
  ]);
});

t.test(
  "a response that another model completed is attributed to that model, without the part of the first one",
  async (t) => {
    const besides = [{ in: { total: 200 }, out: { total: 20 }, model: "small", price: small.version }];
    t.same(parts({ model: "large", besides }, 10_400_000, [], large.version), [
      ["small", 200, 20, 400_000, 0],
      ["large", 1000, 100, 10_000_000, 0],
      ["small", -1000, -100, -10_400_000, -0],
    ]);
  },
);

t.test("of parts without a price the tokens are moved, and the cost stays unsettled", async (t) => {
  const besides = [{ in: { total: 200 }, out: { total: 20 } }];
  t.same(parts({ model: "large", besides }, undefined), [
    ["large", 200, 20, 0, 0],
    ["large", 1000, 100, 0, 1],
    ["small", -1000, -100, -0, -1],
  ]);
});

t.test("searches and generated images are separate where the invoice has them", async (t) => {
  const usage = { serverTools: { web_search_requests: 2 }, drawn: { model: "brush", in: {}, out: { total: 50 } } };
  t.same(parts(usage, 524_000_000, ["brush", WEB_SEARCH_NAME]), [
    ["brush", 0, 50, 2_000_000, 0],
    [WEB_SEARCH_NAME, 0, 0, 20_000_000, 0],
    ["small", 0, 0, -22_000_000, 0],
  ]);
  t.same(parts(usage, 524_000_000, [WEB_SEARCH_NAME]).length, 2);
});
