import t from "tap";
import { MemberRenamer } from "../../src/translation/rename-members.ts";
import { gathered } from "../support/gathered.ts";

const NAMES = new Map([
  ["_top", "$top"],
  ["a_b", 'a "b"'],
]);

function renamed(pieces: readonly string[]): string {
  const renamer = new MemberRenamer(NAMES);
  return [...pieces.map((piece) => renamer.push(piece)), renamer.end()].join("");
}

const CASES: readonly (readonly [json: string, out: string])[] = [
  [
    '{"_top":1,"other":"_top","a_b":[ "_top" , {"_top":2}]}',
    '{"$top":1,"other":"_top","a \\"b\\"":[ "_top" , {"_top":2}]}',
  ],
  [' {\n "\\u005ftop" : "\\"_top\\":{,[", "_top":1.0 }\n', ' {\n "$top" : "\\"_top\\":{,[", "$top":1.0 }\n'],
  [
    '{"a":{"_top":1,"b":[]},"_top":{"_top":"}"},"_top":null}',
    '{"a":{"_top":1,"b":[]},"$top":{"_top":"}"},"$top":null}',
  ],
  ['{"a":"\\" {","b":"\\\\","_top":1}', '{"a":"\\" {","b":"\\\\","$top":1}'],
  ["{}", "{}"],
  ['["_top",{"_top":1}]', '["_top",{"_top":1}]'],
  ['"_top"', '"_top"'],
  ['{"_top":1,"_to', '{"$top":1,"_to'],
  ['{"_\\q":1,"_top":2}', '{"_\\q":1,"$top":2}'],
];

gathered(t, "an object's own members are renamed and nothing else, wherever its JSON is cut", async (t) => {
  for (const [json, out] of CASES) {
    for (let i = 0; i <= json.length; i++) t.equal(renamed([json.slice(0, i), json.slice(i)]), out, json);
    t.equal(renamed([...json]), out, json);
  }
});

t.test("what is not a member's name is passed on at once", async (t) => {
  const renamer = new MemberRenamer(NAMES);
  t.same(
    ['{"_top', '":"a lo', 'ng text","', "x"].map((piece) => renamer.push(piece)),
    ["{", '"$top":"a lo', 'ng text",', ""],
  );
  t.equal(renamer.end(), '"x');
});
