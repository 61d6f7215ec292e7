import t from "tap";
import { keepTexts } from "../../src/core/notices.ts";

t.test("only texts stay, in their order, and what was no text is reported", async (t) => {
  const [mixed, texts] = [["one", 5, "two", null], ["three"]] as [string[], string[]];
  t.equal(keepTexts(texts, mixed), true);
  t.same([mixed, texts], [["one", "two"], ["three"]]);
  t.equal(keepTexts(texts, mixed), false);
});
