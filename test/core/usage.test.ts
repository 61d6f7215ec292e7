import t from "tap";
import { checkUsage, type Usage } from "../../src/core/usage.ts";

const usage = (members: object): Usage => ({ in: {}, out: {}, raw: undefined, ...members });

t.test("usage has counts, and names of its model and tier", async (t) => {
  const counts = { in: { total: 5, cached: undefined, write: { "5m": 2 } }, out: { total: 0 } };
  const whole = { ...counts, serverTools: { web_search: 1 }, tier: "flex", images: { count: 2 }, providerCost: 3 };
  t.doesNotThrow(() => checkUsage(usage({ ...whole, model: "m", drawn: counts, besides: [counts] })));
  t.doesNotThrow(() => checkUsage(usage({})));
});

t.test("an invalid member is named", async (t) => {
  for (const [members, told] of [
    [{ in: undefined }, "usage.in is not an object."],
    [{ in: { total: -1 } }, "usage.in.total is not a count."],
    [{ in: { write: 5 } }, "usage.in.write is not an object."],
    [{ in: { write: { "5m": "1" } } }, "usage.in.write.5m is not a count."],
    [{ out: { reasoning: Number.NaN } }, "usage.out.reasoning is not a count."],
    [{ serverTools: { web_search: "1" } }, "usage.serverTools.web_search is not a count."],
    [{ tier: 5 }, "usage.tier is not a text."],
    [{ model: 5 }, "usage.model is not a text."],
    [{ images: null }, "usage.images.count is not a count."],
    [{ drawn: { in: {} } }, "usage.drawn.out is not an object."],
    [{ besides: [null] }, "usage.besides[] is not an object."],
    [{ providerCost: 5n }, "usage.providerCost is not a number."],
  ] as [object, string][])
    t.throws(() => checkUsage(usage(members)), { name: "TypeError", message: told });
});
