import t from "tap";
import { TextUnwrapper } from "../../src/translation/unwrap.ts";
import { gathered } from "../support/gathered.ts";

const TEXTS = [
  "",
  "plain",
  'quotes " and \\ backslashes / and\nlines\ttabs\b\f\r',
  "é ü 🙂 \u2028 \u0000",
  "*** Begin Patch\n+const a = `b`;\n*** End Patch",
  "ends in a backslash \\",
];
const escaped = (text: string): string =>
  JSON.stringify(text).replaceAll(/[^\x20-\x7e]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);

function unwrapped(pieces: readonly string[]): { text: string; pieces: string[] } {
  const unwrapping = new TextUnwrapper();
  const out = [...pieces.map((piece) => unwrapping.push(piece)), unwrapping.end()];
  return { text: out.join(""), pieces: out };
}

gathered(t, "the free text comes out as it was, wherever its JSON is cut", async (t) => {
  for (const text of TEXTS)
    for (const json of [
      `{"input":${JSON.stringify(text)}}`,
      `{"input":${escaped(text)}}`,
      ` {\n "input" : ${JSON.stringify(text)} , "more": {"input": "no"} }`,
    ]) {
      for (let i = 0; i <= json.length; i++) t.equal(unwrapped([json.slice(0, i), json.slice(i)]).text, text);
      t.equal(unwrapped([...json]).text, text);
    }
});

t.test("what has arrived is sent at once, but never half of a character", async (t) => {
  t.same(unwrapped(['{"input":"ab', "cd", 'ef"}']).pieces, ["ab", "cd", "ef", ""]);
  const { pieces } = unwrapped([...`{"input":${escaped("a🙂b")}}`]);
  t.ok(pieces.every((piece) => piece.isWellFormed()));
  t.same(
    pieces.filter((piece) => piece !== ""),
    ["a", "🙂", "b"],
  );
});

t.test("half of a surrogate pair that nothing follows is not lost", async (t) => {
  t.equal(unwrapped(['{"input":"a\\ud83d"}']).text, "a\ud83d");
  t.equal(unwrapped(['{"input":"a\\ud83d']).text, "a\ud83d");
});

t.test("an endlessly long opening is no opening", async (t) => {
  const pieces = ["{", ...Array.from({ length: 300_000 }, () => " "), `"input":"text"}`];
  t.equal(unwrapped(pieces).text, "text");
});

t.test("arguments of another form are read as a whole, and are the text where they contain none", async (t) => {
  t.equal(unwrapped(['{"why":1,"inp', 'ut":"text"}']).text, "text");
  for (const other of ["just text", '{"input":5}', "[1]", '"quoted"', '{"other":"x"}', "{", '{"inpu'])
    t.equal(unwrapped([...other]).text, other);
});

t.test("an empty object is an empty text, like the absence of arguments", async (t) => {
  for (const pieces of [[], ["{}"], [" {", "\n} "]]) t.equal(unwrapped(pieces).text, "");
});

t.test("an invalid escape, and incomplete arguments, yield what is there", async (t) => {
  t.equal(unwrapped(['{"input":"ab\\uzzzz"}']).text, 'ab\\uzzzz"}');
  t.equal(unwrapped(['{"input":"ab', "\\u00"]).text, "ab\\u00");
});
