import t from "tap";
import { EFFORTS, effortFor, effortOf } from "../../../../plugins/protocols/openai/effort.ts";

t.test("tokens for thinking stand for the nearest effort; below 0 the model decides", async (t) => {
  t.same([-1, 0, 1, 1024, 1025, 4096, 12_288, 24_576, 24_577, 1_000_000].map(effortFor), [
    undefined,
    "none",
    "minimal",
    "minimal",
    "low",
    "low",
    "medium",
    "high",
    "xhigh",
    "xhigh",
  ]);
});

t.test("only words of the vendor are efforts", async (t) => {
  for (const effort of EFFORTS) t.equal(effortOf(effort), effort);
  for (const word of ["default", "HIGH", "", 3, null, undefined, "constructor"]) t.equal(effortOf(word), undefined);
});
