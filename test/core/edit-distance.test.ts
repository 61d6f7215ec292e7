import t from "tap";
import { editDistance } from "../../src/core/edit-distance.ts";

t.test("distance counts insertions, deletions, replacements and swaps", async (t) => {
  t.equal(editDistance("abc", "abc"), 0);
  t.equal(editDistance("abc", "acb"), 1);
  t.equal(editDistance("abc", "abcd"), 1);
  t.equal(editDistance("kitten", "sitting"), 3);
  t.equal(editDistance("", "abc"), 3);
});
