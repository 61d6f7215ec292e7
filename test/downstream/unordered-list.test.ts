import t from "tap";
import { UnorderedList } from "../../src/downstream/unordered-list.ts";

t.test("items are added and removed in any order, and each is removed once", async (t) => {
  const bag = new UnorderedList<string>();
  const [a, b, c] = ["a", "b", "c"].map((item) => bag.add(item));
  t.same(bag.items().sort(), ["a", "b", "c"]);
  for (const entry of [a, a, undefined]) if (entry) bag.remove(entry);
  t.same(bag.items().sort(), ["b", "c"]);
  const d = bag.add("d");
  if (c) bag.remove(c);
  t.same(bag.items().sort(), ["b", "d"]);
  t.same([bag.some((item) => item === "d"), bag.some((item) => item === "a")], [true, false]);
  for (const entry of [b, d, c, a]) if (entry) bag.remove(entry);
  t.equal(bag.size, 0);
  t.same(bag.items(), []);
});

t.test("an item removed during an iteration is still visited", async (t) => {
  const bag = new UnorderedList<number>();
  const entry = [0, 1, 2, 3].map((item) => bag.add(item));
  const seen: number[] = [];
  for (const item of bag.items()) {
    seen.push(item);
    for (const each of entry) bag.remove(each);
  }
  t.same(seen, [0, 1, 2, 3]);
});
