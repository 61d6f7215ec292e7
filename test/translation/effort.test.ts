import t from "tap";
import { ReasoningBudget } from "../../src/translation/effort.ts";

t.test("the thinking budget of an effort maps back to that effort, and one token more to the next", async (t) => {
  for (const [effort, tokens] of Object.entries(ReasoningBudget.tokens))
    t.equal(ReasoningBudget.effortOf(tokens), effort);
  t.same([1, 1025, 4097, 12_289, 24_577].map(ReasoningBudget.effortOf), ["minimal", "low", "medium", "high", "xhigh"]);
});
