import t from "tap";
import {
  escapeJson,
  JsonTextOutput,
  type TextOutput,
  TextPattern,
  TextReplacer,
  WholeTextOutput,
} from "../../src/core/text-replacer.ts";
import { type Cast, dice } from "../support/dice.ts";

/** A text in pieces. */
function cut(text: string, next: Cast): string[] {
  const pieces: string[] = [];
  for (let at = 0; at < text.length; ) {
    const to = at + next(6);
    pieces.push(text.slice(at, to));
    at = to;
  }
  return pieces;
}

const through = (output: TextOutput, pieces: readonly string[]): string =>
  pieces.map((piece) => output.push(piece)).join("") + output.end();

const PATTERNS: [pattern: RegExp, longest: number, parts: readonly string[]][] = [
  [/<address-\d+>/, 20, ["<address-1>", "<address-22>", "<addr", "<", ">", "a ", "1"]],
  [/[\w.+-]+@[\w-]+(?:\.[\w-]+)+/, 60, ["me@home.org", "@", ".", "a", " ", "x@y.z", "-"]],
  [/\b\d{3}-\d{2}\b/, 6, ["123-45", "1", "-", "23", " ", "x"]],
  [/(?<!a)b+(?!c)/i, 12, ["b", "B", "a", "c", " "]],
  [/cat|category|dog(?=s)/, 8, ["cat", "egory", "dog", "s", "do", " "]],
  [/(['"])\w\1/, 3, ["'a'", '"b"', "'", '"', "a", " "]],
  [/😀+x?/u, 20, ["😀", "\ud83d", "x", "\ude00", " "]],
  [/^\w|o$/, 1, ["a", " ", "o"]],
  [/(?<=brown )fox/, 4, ["brown ", "fox", "bro", "wn ", "f"]],
  [/(?<!not right )now\b/, 4, ["not right ", "now", " ", "n"]],
];

t.test("a text is replaced the same in pieces as in one, however it is split", async (t) => {
  const next = dice(3);
  const wrong: string[] = [];
  for (const [pattern, maxLength, parts] of PATTERNS) {
    const prepared = new TextPattern({ pattern, maxLength });
    for (let round = 0; round < 400; round++) {
      const length = 1 + next(8);
      const text = Array.from({ length }, () => parts[next(parts.length)]).join("");
      const expected = text.replaceAll(new RegExp(pattern.source, `${pattern.flags}g`), (found) => `[${found}]`);
      const pieces = cut(text, next);
      const found = through(new TextReplacer(prepared, (match) => `[${match}]`), pieces);
      if (found !== expected) wrong.push(`${pattern} in ${JSON.stringify(pieces)}: ${found}, not ${expected}`);
    }
  }
  t.same(wrong, []);
});

t.test("a pattern may look back at 256 characters, or at as many as its longest match has", async (t) => {
  for (const [longest, behind] of [
    [4, 256],
    [300, 300],
  ] as const) {
    const pattern = new RegExp(`(?<=^.{${behind}})fox`, "s");
    const output = new TextReplacer(new TextPattern({ pattern, maxLength: longest }), () => "cat");
    const text = `${"x".repeat(behind)}fox fox`;
    t.equal(through(output, [...text]), `${"x".repeat(behind)}cat fox`);
  }
});

t.test("a pattern that matches the empty string in some texts only is an error there, not an endless search", (t) => {
  for (const pattern of [/(?=b)/, /\b/, /x|(?<=a)/]) {
    const output = new TextReplacer(new TextPattern({ pattern, maxLength: 2 }), () => "-");
    t.throws(() => through(output, ["a", "b"]), { name: "SyntaxError", message: /can match the empty string/ });
  }
  t.end();
});

t.test("what is no pattern, and a length that is none, are errors for any text", (t) => {
  for (const maxLength of [0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, "5", undefined])
    t.throws(() => new TextPattern({ pattern: /a/, maxLength: maxLength as number }), { name: "TypeError" });
  t.throws(() => new TextPattern({ pattern: "a" as never, maxLength: 1 }), /must be a regular expression/);
  t.end();
});

t.test("only a possible match waits, and its length is bounded", async (t) => {
  const mask = new TextReplacer(new TextPattern({ pattern: /<address-\d+>/, maxLength: 20 }), () => "me@home");
  t.same([mask.push("Write to "), mask.isPending], ["Write to ", false]);
  t.same([mask.push("<addr"), mask.isPending], ["", true]);
  t.same([mask.push("ess-1>"), mask.isPending], ["me@home", false]);
  t.same([mask.push("a < "), mask.isPending], ["a < ", false]);
  t.same([mask.push(`<address-${"1".repeat(50)}`), mask.isPending], [`<address-${"1".repeat(50)}`, false]);
  t.same([mask.push(" <"), mask.end(), mask.isPending], [" ", "<", false]);
});

t.test("each match is reported once", async (t) => {
  const seen: string[] = [];
  const note = (match: string) => `#${seen.push(match)}`;
  const output = new TextReplacer(new TextPattern({ pattern: /\w+@\w+/, maxLength: 20 }), note);
  t.equal(through(output, [..."to a@b, c@d and a@b"]), "to #1, #2 and #3");
  t.same(seen, ["a@b", "c@d", "a@b"]);
});

const quoted = (text: string): string => `<${text.toUpperCase()}"\n>`;
const json = (pieces: readonly string[], map: (text: string) => string): string =>
  through(new JsonTextOutput(new WholeTextOutput(map, escapeJson)), pieces);

t.test("in JSON text each string value is a text, escaped again; all other bytes are kept", async (t) => {
  const text = '{ "a" : "x\\u0041\\n" , "b":[1.0,"",{"c":"\\/y"},null],"d\\"e":true,"f":{}, "g":"z"}';
  t.equal(
    json([text], (each) => each),
    text,
  );
  const mapped = json([text], quoted);
  const expected = {
    a: quoted("xA\n"),
    b: [1, quoted(""), { c: quoted("/y") }, null],
    'd"e': true,
    f: {},
    g: quoted("z"),
  };
  t.same(JSON.parse(mapped), expected);
  t.match(mapped, /^\{ "a" : "<XA\\n\\"\\n>" , "b":\[1\.0,/);
  t.equal(json(['"a"'], quoted), JSON.stringify(quoted("a")));
  t.equal(
    json(['{"a": broken "x'], (each) => each),
    '{"a": broken "x',
    "invalid JSON passes",
  );
});

t.test("JSON text is replaced the same however it is split", async (t) => {
  const next = dice(5);
  const wrong: string[] = [];
  const prepared = new TextPattern({ pattern: /<\w+>/, maxLength: 12 });
  const parts = ["<mask>", "<ma", "\\u003c", "m\\u0061sk>", "\\n", '\\"', "\\\\", "sk>", " ", "😀"];
  const replacer = (): JsonTextOutput => new JsonTextOutput(new TextReplacer(prepared, () => 'a"\n', escapeJson));
  for (let round = 0; round < 1000; round++) {
    const string = () => Array.from({ length: 5 }, () => parts[next(parts.length)]).join("");
    const text = `{"<mask>":"${string()}","b":["${string()}", 7, {"c" : "${string()}"}]}`;
    const pieces = cut(text, next);
    const found = through(replacer(), pieces);
    const [, b, [c, , d]] = Object.values({ x: 0, ...(JSON.parse(text) as object) }) as [
      0,
      string,
      [string, 7, { c: string }],
    ];
    const masked = (each: string): string => each.replaceAll(/<\w+>/g, 'a"\n');
    const expected = { "<mask>": masked(b), b: [masked(c), 7, { c: masked(d.c) }] };
    if (JSON.stringify(JSON.parse(found)) !== JSON.stringify(expected))
      wrong.push(`${JSON.stringify(pieces)}: ${found}`);
    if (found !== through(replacer(), [text])) wrong.push(`${JSON.stringify(pieces)}: not as in whole`);
  }
  t.same(wrong, []);
});
