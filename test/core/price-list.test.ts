import t from "tap";
import { additionalCost, minimumCost, PriceList, priceVersion, totalCost } from "../../src/core/price-list.ts";

const at = (text: string) => Date.parse(text);

t.test("equal terms have equal names, in any order of members, and others differ", async (t) => {
  const name = priceVersion({ input: 1, output: 2, above: [{ tokens: 5, input: 3 }] });
  t.match(name, /^[0-9a-f]{12}$/);
  t.equal(priceVersion({ above: [{ input: 3, tokens: 5 }], output: 2, input: 1 }), name);
  t.not(priceVersion({ input: 1, output: 2, above: [{ tokens: 5, input: 4 }] }), name);
});

t.test("of dated terms the latest that has begun applies", async (t) => {
  const list = new PriceList(
    [{ price: { input: 1 } }, { price: { input: 2 }, from: at("2027-01-01T00:00:00Z") }],
    "table 1",
  );
  t.equal(list.versionAt(at("2026-12-31T23:59:59.999Z"))?.price.input, 1);
  t.equal(list.versionAt(at("2027-01-01T00:00:00Z"))?.price.input, 2);
  t.same(
    list.all.map(({ price, source }) => [price, source]),
    [
      [{ input: 1 }, "table 1"],
      [{ input: 2 }, "table 1"],
    ],
  );
});

t.test("before its first date a price is unknown, which is not 0", async (t) => {
  const list = new PriceList([{ price: { input: 2 }, from: at("2027-01-01T00:00:00Z") }], "table 1");
  t.equal(list.versionAt(at("2026-12-31T00:00:00Z")), undefined);
});

t.test("terms of a time of day apply within it, in UTC, on every day and past midnight too", async (t) => {
  const hour = 3_600_000;
  const day = new PriceList(
    [{ price: { input: 1 } }, { price: { input: 3 }, daily: { start: hour, end: 4 * hour } }],
    "x",
  );
  const inputs = ["00:59:59.999", "01:00:00", "03:59:59.999", "04:00:00"].map(
    (time) => day.versionAt(at(`2031-05-06T${time}Z`))?.price.input,
  );
  t.same(inputs, [1, 3, 3, 1]);
  const night = new PriceList(
    [{ price: { input: 1 } }, { price: { input: 3 }, daily: { start: 22 * hour, end: 2 * hour } }],
    "x",
  );
  const nightly = ["21:59:59", "22:00:00", "01:59:59", "02:00:00"].map(
    (time) => night.versionAt(at(`2031-05-06T${time}Z`))?.price.input,
  );
  t.same(nightly, [1, 3, 3, 1]);
});

/** Terms as gateway.yaml has them: dollars for a million tokens. */
const terms = (version: string, price: { input?: number; output?: number; request?: number }) => ({
  version,
  price,
  source: "gateway.yaml",
});
const dear = terms("dear", { input: 2, output: 4, request: 1 });
const cheap = terms("cheap", { input: 1 });

t.test(
  "additional usage costs its own model's terms, which are listed, and each request is charged once",
  async (t) => {
    const besides = [
      { model: "small", in: { total: 10 }, out: {} },
      { in: { total: 3 }, out: {} },
    ];
    const usage = { in: { total: 1 }, out: { total: 1 }, raw: undefined, besides };
    const reckoned = totalCost(usage, dear, (model) => (model === "small" ? cheap : undefined));
    t.equal(reckoned?.cost, 1e9 + 2000 + 4000 + 10 * 1000 + 3 * 2000);
    t.same(reckoned?.besides, [{ ...besides[0], price: "cheap" }, besides[1]]);
    t.equal(additionalCost(besides[1] ?? {}, usage, dear), 6000, "without the cost of the request");
    t.equal(minimumCost(usage, dear), 1e9 + 2000 + 4000 + 13 * 2000);
  },
);

t.test("if a part's model has no terms the cost is unknown, and without parts none are listed", async (t) => {
  const usage = { in: { total: 1 }, out: { total: 1 }, raw: undefined };
  t.same(
    totalCost(usage, dear, () => undefined),
    { cost: 1e9 + 6000 },
  );
  const besides = [{ model: "unknown", in: { total: 10 }, out: {} }];
  t.equal(
    totalCost({ ...usage, besides }, dear, () => undefined),
    undefined,
  );
});
