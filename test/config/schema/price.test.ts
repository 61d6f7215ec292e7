import t from "tap";
import { PriceSchema } from "../../../src/config/schema/price.ts";

t.test("a price accepts rates, tiers and sums for images", async (t) => {
  const price = { input: 0.15, above: [{ tokens: "200k", input: 0.3 }], image: { "": 0.04 }, flex: { input: 0.07 } };
  t.match(PriceSchema.parse(price), { ...price, above: [{ tokens: 200_000, input: 0.3 }] });
});

t.test("a rate with more than six decimals, or below zero, is refused", async (t) => {
  t.match(PriceSchema.safeParse({ input: 0.000_000_1 }).error?.issues, [{ message: /more than 6 decimals/ }]);
  t.match(PriceSchema.safeParse({ input: -1 }).error?.issues, [{ message: "must not be less than 0" }]);
});
