import t from "tap";
import { scan } from "../../src/wire/json.ts";
import { type Edit, removeMembers, replaceMember, setMember, shiftSpan, splice } from "../../src/wire/splice.ts";
import { dice } from "../support/dice.ts";
import { gathered } from "../support/gathered.ts";

const edit = (start: number, end: number, text = ""): Edit => ({ start, end, bytes: Buffer.from(text) });

/** The text with its edits, the same in one piece, in single bytes and cut in two anywhere. */
function apply(text: string, edits: readonly Edit[]): string {
  const bytes = Buffer.from(text);
  const ways = [[bytes], Array.from(bytes, (_, i) => bytes.subarray(i, i + 1))];
  for (let i = 0; i <= bytes.length; i++) ways.push([bytes.subarray(0, i), bytes.subarray(i)]);
  const results = new Set(ways.map((pieces) => Buffer.concat(splice(pieces, edits)).toString()));
  if (results.size !== 1) throw new Error(`differs by chunking: ${[...results].join(" | ")}`);
  const [result] = results;
  return result as string;
}

const remove = (text: string, ...names: string[]): string => apply(text, removeMembers(scan(Buffer.from(text)), names));
const set = (text: string, name: string, json: string): string =>
  apply(text, [setMember(scan(Buffer.from(text)), name, json)]);

t.test("bytes are replaced, inserted and removed, in any order of edits", async (t) => {
  t.equal(apply("0123456789", []), "0123456789");
  t.equal(apply("0123456789", [edit(8, 9, "B"), edit(2, 4, "A")]), "01A4567B9");
  t.equal(apply("0123456789", [edit(0, 0, "<"), edit(10, 10, ">")]), "<0123456789>");
  t.equal(
    apply("0123456789", [edit(5, 5, "a"), edit(5, 5, "b"), edit(5, 7)]),
    "01234ab789",
    "insertions keep their order",
  );
  t.equal(apply("0123456789", [edit(0, 10)]), "");
  t.equal(apply("0123456789", [edit(2, 4), edit(4, 6)]), "016789", "neighbours do not overlap");
  t.equal(apply("", [edit(0, 0, "x")]), "x");
});

t.test("unchanged bytes are not copied", async (t) => {
  const pieces = [Buffer.from("0123"), Buffer.from("4567"), Buffer.from("89")];
  const result = splice(pieces, [edit(5, 6, "x")]);
  t.equal(result[0], pieces[0], "a complete chunk is returned itself");
  t.equal(result[1]?.buffer, pieces[1]?.buffer);
  t.equal(result.at(-1), pieces[2]);
  t.equal(Buffer.concat(result).toString(), "01234x6789");
});

t.test("an edit inside a removed range is dropped", async (t) => {
  t.equal(apply("0123456789", [edit(3, 4, "x"), edit(2, 6)]), "016789");
  t.equal(apply("0123456789", [edit(2, 6), edit(4, 6, "x"), edit(5, 5, "y")]), "016789");
  t.equal(apply("0123456789", [edit(2, 6), edit(2, 6)]), "016789");
  t.equal(apply("0123456789", [edit(2, 6), edit(2, 2, "x"), edit(6, 6, "y")]), "01xy6789", "its edges are outside");
});

t.test("the last of several edits of the very same range counts", async (t) => {
  t.equal(apply("0123456789", [edit(2, 6, "a"), edit(2, 6, "b")]), "01b6789");
});

t.test("edits that overlap or reach beyond the text are refused", async (t) => {
  const text = [Buffer.from("0123456789")];
  t.throws(() => splice(text, [edit(2, 6, "a"), edit(4, 8, "b")]), /overlap/);
  t.throws(() => splice(text, [edit(2, 6), edit(4, 8)]), /overlap/);
  t.throws(() => splice(text, [edit(2, 6, "a"), edit(3, 4, "b")]), /overlap/);
  t.throws(() => splice(text, [edit(8, 11)]), /ends at byte 11 of a text of 10 bytes/);
  t.throws(() => splice(text, [edit(12, 12, "x")]), /byte 12 of a text of 10 bytes/);
});

t.test("members are removed with the right commas", async (t) => {
  const text = '{ "a":1 , "b":[2,3], "c":"x" }';
  t.equal(remove(text, "a"), '{ "b":[2,3], "c":"x" }');
  t.equal(remove(text, "b"), '{ "a":1 , "c":"x" }');
  t.equal(remove(text, "c"), '{ "a":1 , "b":[2,3] }');
  t.equal(remove(text, "a", "b"), '{ "c":"x" }');
  t.equal(remove(text, "b", "c"), '{ "a":1 }');
  t.equal(remove(text, "a", "c"), '{ "b":[2,3] }');
  t.equal(remove(text, "c", "b", "a"), "{}");
  t.equal(remove(text, "d"), text);
  t.equal(remove("[1]", "a"), "[1]");
  t.equal(remove('{"\\u0061":1,"b":2}', "a"), '{"b":2}', "an escaped name is that name");
});

t.test("existing members are set and missing ones added", async (t) => {
  t.equal(set('{"a": 1 ,"b":2}', "a", "[9]"), '{"a": [9] ,"b":2}');
  t.equal(set('{ "a":1}', "n", "true"), '{"n":true, "a":1}');
  t.equal(set("{ }", "n", "true"), '{"n":true }');
  t.equal(set("{}", 'q"', "1"), '{"q\\"":1}');
  t.throws(() => setMember(scan(Buffer.from("[1]")), "n", "1"), /not in array/);
  const found = scan(Buffer.from('{"a":1}'));
  t.equal(apply('{"a":1}', [replaceMember(found.members[0] as never, '"é"')]), '{"a":"é"}');
});

t.test("changes that were found one by one are applied together", async (t) => {
  const text = '{"a":1,"b":2,"c":3}';
  const found = scan(Buffer.from(text));
  const gone = (...names: string[]) => removeMembers(found, names);
  t.equal(apply(text, [...gone("b"), ...gone("c")]), '{"a":1}');
  t.equal(apply(text, [...gone("c"), ...gone("b"), ...gone("b")]), '{"a":1}');
  t.equal(apply(text, [...gone("a", "b"), ...gone("c"), setMember(found, "n", "0")]), '{"n":0}');
  t.equal(
    apply(text, [setMember(found, "n", "0"), setMember(found, "m", "1"), ...gone("a")]),
    '{"n":0,"m":1,"b":2,"c":3}',
  );
  t.equal(apply(text, [setMember(found, "n", "0"), setMember(found, "n", "1")]), '{"n":1,"a":1,"b":2,"c":3}');
  t.equal(apply(text, [setMember(found, "a", "8"), setMember(found, "a", "9")]), '{"a":9,"b":2,"c":3}');
  t.equal(apply(text, [setMember(found, "b", "8"), ...gone("b")]), '{"a":1,"c":3}', "a removed member cannot be set");
  const empty = scan(Buffer.from("{}"));
  t.equal(apply("{}", [setMember(empty, "n", "0"), setMember(empty, "m", "1")]), '{"n":0,"m":1}');
});

gathered(
  t,
  "random objects: the result is the object with that change, and all other bytes are as they were",
  async (t) => {
    const random = dice(11);
    const odd = [
      "1.0",
      "-0",
      "12345678901234567890",
      "1e400",
      '"\\u00e9\\n"',
      '"é😀"',
      '[1, {"a":2}]',
      '{ "x" : [ ] }',
      "null",
      "true",
    ];
    const space = (): string => ["", " ", "\n  ", "\t"][random(4)] as string;
    for (let round = 0; round < 400; round++) {
      const names = Array.from(
        { length: random(7) },
        (_, i) => ["a", '\\"', "é", "\\u0062", "c", "d", "e"][i] as string,
      );
      const parts = names.map((name) => ({
        key: `${space()}"${name}"${space()}:${space()}`,
        json: odd[random(odd.length)] as string,
      }));
      const text = `${space()}{${parts.map((part) => part.key + part.json + space()).join(",")}}${space()}`;
      const bytes = Buffer.from(text);
      const found = scan(bytes);
      const unwanted = ["a", '"', "é", "b", "c", "d", "e"].filter(() => random(3) === 0);
      const expected = JSON.parse(text);
      const edits = removeMembers(found, unwanted);
      for (const name of unwanted) delete expected[name];
      const target = ["a", "é", "new"][random(3)] as string;
      if (!unwanted.includes(target)) {
        edits.push(setMember(found, target, "[0.10]"));
        expected[target] = [0.1];
      }
      const result = apply(text, edits);
      t.strictSame(JSON.parse(result), expected, result);
      const again = scan(Buffer.from(result));
      t.strictSame(removeMembers(again, unwanted), [], "nothing is left to remove");
      for (const member of again.members) {
        const before = found.find(member.name);
        if (!before || member.name === target) continue;
        const now = Buffer.from(result).toString("utf8", member.keyStart, member.end);
        t.equal(now, bytes.toString("utf8", before.keyStart, before.end));
      }
    }
  },
);

t.test("a span moves with what is inserted before it, and grows with what is inserted into it", async (t) => {
  const text = "0123456789";
  const moved = (...edits: Edit[]) => {
    const { start, end } = shiftSpan({ start: 4, end: 7 }, edits);
    return apply(text, edits).slice(start, end);
  };
  t.equal(moved(edit(0, 2, "abc"), edit(8, 9)), "456");
  t.equal(moved(edit(4, 7, "painter")), "painter");
  t.equal(moved(edit(5, 6, "x"), edit(1, 1, "y")), "4x6");
  t.equal(moved(edit(4, 4, "<"), edit(7, 7, ">")), "<456>", "its edges are inside");
  t.throws(() => moved(edit(3, 5)), /cuts the span at 4/);
  t.throws(() => moved(edit(6, 8, "x")), /cuts the span at 4/);
});
