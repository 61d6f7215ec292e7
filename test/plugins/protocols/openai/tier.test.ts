import t from "tap";
import { servedTier, tierOf } from "../../../../plugins/protocols/openai/tier.ts";

t.test("every protocol's name of a tier is the vendor's", async (t) => {
  t.same(
    ["auto", "Standard", "standard_only", "FLEX", "priority", "fast"].map((tier) => tierOf(tier)),
    ["auto", "default", "default", "flex", "priority", "fast"],
  );
});

t.test("a tier that the vendor does not have is none, unless the protocol at hand has it", async (t) => {
  for (const tier of ["ultrafast", "batch", "constructor", ""]) t.equal(tierOf(tier), undefined);
  t.equal(tierOf("Ultrafast", "ultrafast"), "ultrafast");
});

t.test("the tier that served a request has the vendor's name, or its own", async (t) => {
  t.equal(servedTier(undefined), undefined);
  t.equal(servedTier({ in: {}, out: {}, raw: {} }), undefined);
  for (const [tier, served] of [
    ["standard", "default"],
    ["priority", "priority"],
    ["ON_DEMAND", "ON_DEMAND"],
    ["constructor", "constructor"],
  ])
    t.equal(servedTier({ in: {}, out: {}, raw: {}, tier: tier as string }), served);
});
