import t from "tap";
import {
  asCount,
  asCounts,
  asList,
  asObject,
  atMost,
  contentText,
  dropUndefined,
  omit,
  ownProperty,
  pick,
} from "../../src/wire/values.ts";

t.test("a count is a whole number of 0 or more and nothing else", async (t) => {
  for (const count of [0, 1, 2 ** 53 - 1]) t.equal(asCount(count), count);
  for (const other of [-1, 0.5, Number.NaN, 2 ** 53, "3", null, undefined, true, [1]])
    t.equal(asCount(other), undefined);
});

t.test("only an object is an object, and only a list is a list", async (t) => {
  for (const other of [null, undefined, [], "text", 1]) t.equal(asObject(other), undefined);
  t.same(asObject({ a: 1 }), { a: 1 });
  t.same([asList({}), asList("text"), asList([1])], [[], [], [1]]);
});

t.test("counts keeps members that are counts and is undefined without any", async (t) => {
  t.same(asCounts({ searches: 2, share: 0.5, name: "x", none: 0 }), { searches: 2, none: 0 });
  t.equal(asCounts({ name: "x" }), undefined);
  t.equal(asCounts(null), undefined);
});

t.test("a part is never larger than its whole, where both are known", async (t) => {
  t.equal(atMost(5, 3), 3);
  t.equal(atMost(2, 3), 2);
  t.equal(atMost(5, undefined), 5);
  t.equal(atMost(undefined, 3), undefined);
});

t.test("defined leaves undefined members out and keeps 0, null and empty text", async (t) => {
  t.same(Object.keys(dropUndefined({ a: undefined, b: 0, c: null, d: "" })), ["b", "c", "d"]);
});

t.test("the text of a content is the content itself or the text of its parts", async (t) => {
  t.equal(contentText("plain"), "plain");
  t.equal(contentText([{ type: "text", text: "one" }, { type: "image_url" }, "two"]), "one\ntwo");
  t.equal(contentText(null), "");
});

t.test("a table has only its own entries", async (t) => {
  const table = { known: 1 };
  t.equal(ownProperty(table, "known"), 1);
  for (const word of ["unknown", "constructor", "__proto__", undefined]) t.equal(ownProperty(table, word), undefined);
});

t.test("an object without some members, or with these alone, is a copy", async (t) => {
  const all: { a: number; b?: number; c?: number } = { a: 1, b: 2 };
  t.strictSame([omit(all, "b", "c"), pick(all, "b"), all], [{ a: 1 }, { b: 2 }, { a: 1, b: 2 }]);
});
