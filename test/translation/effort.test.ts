import t from "tap";
import { ReasoningBudget } from "../../src/translation/effort.ts";

t.test("the tokens that stand for an effort read as that effort again, and one more as the next", async (t) => {
  for (const [effort, tokens] of Object.entries(ReasoningBudget.tokens))
    t.equal(ReasoningBudget.effortOf(tokens), effort);
  t.same([1, 1025, 4097, 12_289, 24_577].map(ReasoningBudget.effortOf), ["minimal", "low", "medium", "high", "xhigh"]);
});
