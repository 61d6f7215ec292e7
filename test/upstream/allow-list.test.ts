import t from "tap";
import { AllowList } from "../../src/upstream/allow-list.ts";

t.test("names pass by the letter or by a prefix, and no others, however often they are asked", async (t) => {
  const { passes } = new AllowList(["accept", "x-own-*"]);
  for (let round = 0; round < 2; round++)
    t.same(["accept", "x-own-a", "x-own-", "accept-language", "x-ow"].map(passes), [true, true, true, false, false]);
});

t.test("names beyond those it remembers are judged all the same", async (t) => {
  const { passes } = new AllowList(["kept-*"]);
  const names = Array.from({ length: 2000 }, (_, i) => (i % 2 === 0 ? `kept-${i}` : `other-${i}`));
  t.same(names.filter(passes).length, 1000);
});
