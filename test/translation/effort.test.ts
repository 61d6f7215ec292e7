import t from "tap";
import { EFFORT_TOKENS, effortOfTokens } from "../../src/translation/effort.ts";

t.test("the tokens that stand for an effort read as that effort again, and one more as the next", async (t) => {
  for (const [effort, tokens] of Object.entries(EFFORT_TOKENS)) t.equal(effortOfTokens(tokens), effort);
  t.same([1, 1025, 4097, 12_289, 24_577].map(effortOfTokens), ["minimal", "low", "medium", "high", "xhigh"]);
});
