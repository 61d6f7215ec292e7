import t from "tap";
import { isJsonText, NestedJson } from "../../src/wire/nested.ts";

const names = (count: number): string => `{${Array.from({ length: count }, (_, i) => `"n${i}":0`).join(",")}}`;

t.test("the kind of a text's value is the one that JSON.parse finds", async (t) => {
  for (const [text, kind] of [
    [' {"a":{"b":[1,"x"]},"a":1} ', "object"],
    ["[1]", "array"],
    ['"\\ud800"', "string"],
    ['"\ud800"', "string"],
    [" 1 ", "number"],
    ["null", "null"],
    [`{"a":"${"x".repeat(70_000)}\\n${"\\u0041".repeat(20_000)}"}`, "object"],
    ["", undefined],
    ["{},{}", undefined],
    ['{},"a":{}', undefined],
    ["1}", undefined],
    ["{}}", undefined],
    ['{"a":1', undefined],
    ['{"a":"\n"}', undefined],
    [`{"a":"${"x".repeat(90_000)}\n"}`, undefined],
    [`{"a":"${"x".repeat(90_000)}\\x"}`, undefined],
    [`{"a":"${"x".repeat(90_000)}\\u12"}`, undefined],
  ] as const) {
    t.equal(new NestedJson().kindOf(text), kind, text.slice(0, 40));
    t.equal(isJsonText(text), kind !== undefined, text.slice(0, 40));
  }
});

const longName = `{"${"n".repeat(200_000)}":0}`;

t.test("the limits of a body apply to all texts of one request together", async (t) => {
  const nested = new NestedJson();
  t.equal(nested.kindOf(names(30_000)), "object");
  t.equal(nested.kindOf(names(20_000)), "object");
  t.equal(nested.kindOf(names(1)), "large");
  t.equal(nested.kindOf("{}"), "object");
  t.equal(new NestedJson().kindOf(names(50_001)), "large");
  const broken = new NestedJson();
  t.equal(broken.kindOf(`${names(40_000)}?`), undefined);
  t.equal(broken.kindOf(names(20_000)), "large", "invalid JSON has been counted too");
  t.equal(new NestedJson().kindOf(`[${"[],".repeat(450_000)}0]`), "large");
  t.equal(new NestedJson().kindOf(`${"[".repeat(255)}${"]".repeat(255)}`), "array");
  t.equal(new NestedJson().kindOf("[".repeat(100_000)), "large");
  t.equal(new NestedJson().kindOf(longName), "large");
  t.ok(isJsonText(longName));
  t.ok(isJsonText(names(60_000)), "a text that is only checked has no limit");
  t.ok(isJsonText(`${"[".repeat(1000)}${"]".repeat(1000)}`));
});
