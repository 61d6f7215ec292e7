import t from "tap";
import { formatLimitOptions, mergeLimits } from "../../src/text/key-limits.ts";

t.test("a missing option leaves limits unchanged", async (t) => {
  t.equal(mergeLimits({}), undefined);
  t.equal(mergeLimits({}, { rpm: 5 }), undefined);
});

t.test("off is no limit, and an empty text leaves it to gateway.yaml", async (t) => {
  t.same(mergeLimits({ rpm: "off", budget: ["off"] }), { rpm: 0, budgets: [] });
  t.same(mergeLimits({ rpm: "", tpm: "" }, { rpm: 5, tpm: 6, concurrency: 7 }), { concurrency: 7 });
  t.equal(mergeLimits({ rpm: "", budget: [""] }, { rpm: 5, budgets: [] }), null);
});

t.test("budgets replace the previous ones", async (t) => {
  const before = { budgets: [{ nano: 1, per: "day", soft: false }] } as const;
  t.same(mergeLimits({ budget: ["$1/hour", " $2 soft "] }, before), {
    budgets: [
      { nano: 1e9, per: "hour", soft: false },
      { nano: 2e9, per: "total", soft: true },
    ],
  });
});

t.test("an invalid limit is refused with the valid form", async (t) => {
  for (const [options, message] of [
    [{ budget: ["$0/day"] }, /^--budget: \$0 would refuse every request; write more, or off\.$/],
    [{ rpm: "0" }, /^--rpm: 0 would refuse every request; write 1 or more, or off\.$/],
    [{ tpm: "many" }, /^--tpm: "many" is not a count; write it like 300/],
    [{ concurrency: "1.5" }, /^--concurrency: 1\.5 is not a whole count/],
    [{ budget: ["$1/year"] }, /^--budget: "\$1\/year" is not a sum of money/],
    [{ budget: ["off", "$1"] }, /^--budget: off cannot be combined with other budgets\.$/],
    [{ budget: ["$1/day hard"] }, /^--budget: "\$1\/day hard" is not a sum of money/],
  ] as const)
    t.throws(() => mergeLimits(options as Parameters<typeof mergeLimits>[0]), { message });
});

t.test("limits are printed in the form in which they are set", async (t) => {
  const written = { rpm: "300", tpm: "400000", concurrency: "2", budget: ["$10/month", "$0.25/day soft", "$100"] };
  t.same(formatLimitOptions(mergeLimits(written) ?? {}), {
    rpm: 300,
    tpm: 400_000,
    concurrency: 2,
    budget: written.budget,
  });
  t.same(formatLimitOptions({ rpm: 0, budgets: [] }), {});
});
