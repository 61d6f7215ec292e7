import t from "tap";
import { atPath, entries, isMap, items } from "../../src/config/tree.ts";

t.test("a path is followed through maps and lists", async (t) => {
  const tree = { a: [{ b: 1 }], n: null };
  t.equal(atPath(tree, "a", 0, "b"), 1);
  t.equal(atPath(tree), tree);
  t.equal(atPath(tree, "n"), null);
});

t.test("a missing entry is not found, however odd the name", async (t) => {
  for (const path of [["x"], ["a", 7], ["n", "x"], ["constructor"], ["__proto__"], ["a", "length", "x"]])
    t.equal(atPath({ a: [], n: null }, ...path), undefined);
});

t.test("a value of another type has no entries and no items", async (t) => {
  for (const value of [undefined, null, 5, "text", true]) {
    t.same(entries(value), []);
    t.same(items(value), []);
    t.notOk(isMap(value));
  }
  t.same(entries(["a"]), []);
  t.same(items({ a: 1 }), []);
  t.same(entries({ a: 1 }), [["a", 1]]);
  t.same(items(["x"]), [[0, "x"]]);
});
