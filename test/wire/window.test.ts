import { readFileSync, writeFileSync } from "node:fs";
import t from "tap";
import wabt from "wabt";
import { EXPECT_KEY, EXPECT_SEPARATOR } from "../../src/wire/grammar.ts";
import { scan } from "../../src/wire/json.ts";
import {
  ByteSearch,
  FAULT,
  LineStart,
  loadLines,
  MAX_PIECE,
  type Nesting,
  valueEnd,
  Window,
} from "../../src/wire/window.ts";
import { dice } from "../support/dice.ts";

const SOURCE = new URL("../../src/wire/window.wat", import.meta.url);
const MACHINE = new URL("../../src/wire/window.wasm", import.meta.url);

t.test("window.wasm is window.wat, assembled; WASM=write builds it anew", async (t) => {
  const { parseWat } = await wabt();
  const assembled = parseWat("window.wat", readFileSync(SOURCE, "utf8"), { simd: true }).toBinary({}).buffer;
  if (process.env["WASM"] === "write") writeFileSync(MACHINE, assembled);
  t.ok(readFileSync(MACHINE).equals(assembled));
});

/** Where a string ends, the slow way. */
function expected(bytes: Buffer, from: number, checked: number): number {
  let i = from;
  for (; i < bytes.length; i++) {
    const byte = bytes[i] as number;
    if (byte === 34) return i;
    if (byte < 32 && i < checked) return FAULT;
    if (byte !== 92) continue;
    const rest = bytes.toString("latin1", i + 1, i + 6);
    if (i < checked && rest !== "" && !/^(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/.test(rest)) return FAULT;
    i += i < checked && rest[0] === "u" ? 5 : 1;
  }
  return i;
}

const PARTS = [
  ...['"', "\\", '\\"', "\\\\", "\\n", "\\u00e9", "\\u12", "\\x", "\n", "\x1f", " ", "#", "]", "\x7f", "\xff"],
  ...["a", "plain", "z".repeat(30), "y".repeat(300), "x".repeat(1500)],
];

t.test("the end of a string is found for any position of words, edges and long plain text", (t) => {
  const random = dice(7);
  let wrong = 0;
  for (let n = 0; n < 6000; n++) {
    // Few quotes, so that some texts are long.
    const parts = Array.from({ length: random(30) }, () => PARTS[n % 3 === 0 ? random(PARTS.length) : 2 + random(18)]);
    const text = Buffer.from(parts.join(""), "latin1");
    const shift = random(8);
    const bytes = Buffer.alloc(text.length + 8).subarray(shift, shift + text.length);
    text.copy(bytes);
    const from = random(Math.min(bytes.length, 9) + 1);
    const checked = [0, from + 256, bytes.length][random(3)] as number;
    const found = new Window(bytes).stringEnd(from, checked);
    if (found !== expected(bytes, from, checked)) {
      wrong++;
      t.equal(found, expected(bytes, from, checked), JSON.stringify([text.toString("latin1"), from, checked]));
    }
  }
  t.equal(wrong, 0);
  t.end();
});

t.test("the skip stops at the first quote that counts, or returns where to continue", (t) => {
  const leap = (text: string) => new Window(Buffer.from(text)).plainStringEnd(0);
  t.equal(leap('aa"a'), 2);
  t.equal(leap('a\\\\"a'), 3);
  t.equal(leap('a\\"a"'), -3);
  t.equal(leap("aaa"), 3);
  t.equal(leap("aa\\"), 4);
  t.equal(leap(""), 0);
  t.end();
});

t.test("white space ends at any other byte, at every distance", (t) => {
  const blanks = Buffer.from(" \n\t\r".repeat(30));
  let wrong = 0;
  for (let byte = 0; byte < 256; byte++)
    for (const [from, at] of [
      [0, 0],
      [0, 1],
      [3, 15],
      [1, 16],
      [0, 17],
      [7, 100],
    ] as const) {
      const bytes = Buffer.from(blanks);
      bytes[at] = byte;
      const end = " \n\t\r".includes(String.fromCharCode(byte)) ? blanks.length : at;
      if (new Window(bytes).blanksEnd(from) !== end) wrong++;
    }
  t.equal(wrong, 0);
  t.end();
});

t.test("a text is found at its first occurrence, and nowhere else", (t) => {
  const random = dice(13);
  const made = (letters: string, length: number) =>
    Buffer.from(Array.from({ length }, () => letters[random(letters.length)]).join(""));
  let wrong = 0;
  for (let n = 0; n < 20_000; n++) {
    const letters = "-ab".slice(0, 1 + random(3));
    const text = made(letters, 2 + random(n % 3 === 0 ? 70 : 5));
    const bytes = made(letters, random(150));
    if (new ByteSearch(text).indexIn(bytes) !== bytes.indexOf(text)) wrong++;
  }
  t.equal(wrong, 0);
  const text = Buffer.from(`--${"-=".repeat(34)}x`);
  for (const at of [0, 65_400, 65_470, 65_535, 65_536, 131_000, 199_929]) {
    const bytes = Buffer.alloc(200_000, "-=");
    text.copy(bytes, at);
    t.equal(new ByteSearch(text).indexIn(bytes), bytes.indexOf(text), `at ${at}, longer than one block`);
  }
  t.end();
});

const inObject = (changes: Partial<Nesting> = {}): Nesting => ({
  ...{ expect: EXPECT_SEPARATOR, depth: 2, inObject: true, outer: [false, true], keys: 0, values: 0, seen: 0 },
  ...{ maxDepth: 4, maxKeys: 9 },
  ...changes,
});
const passed = (text: string, nesting: Nesting) =>
  text.slice(0, new Window(Buffer.from(text)).skipInside(0, nesting, 256));

t.test("plain bytes are skipped, and the scan stops before others", (t) => {
  const at = inObject();
  t.equal(passed(', "a" : [ "b", {"c":"d"}, [] ], "e": 1}', at), ', "a" : [ "b", {"c":"d"}, [] ], "e": 1');
  t.match(at, { depth: 2, inObject: true, keys: 3 });
  t.equal(passed(',"a":"b"},"c":1', inObject()), ',"a":"b"', "the scanner finds the end of the member");
  for (const rest of [
    "1",
    "-",
    "1.",
    "0e}",
    "tru",
    "fals",
    "nul",
    '"cut',
    '"a\\x"',
    '"a\nb"',
    ",",
    "}",
    "]",
    '"\\u12g4"',
    '"a" "b"',
  ])
    t.notOk(passed(`,"k":${rest}`, inObject()).length > 5 + (rest === '"a" "b"' ? 4 : 0), rest);
  t.end();
});

t.test("numbers and words within one chunk are skipped", (t) => {
  t.equal(passed(',"k":-1.5e+3, "l":[true,false,null,0]}', inObject()), ',"k":-1.5e+3, "l":[true,false,null,0]');
  t.equal(passed(',"k":12', inObject()), ',"k":', "more digits may follow");
  t.equal(passed(',"k":null', inObject()), ',"k":null');
  t.end();
});

t.test("the limits of depth and names are respected", (t) => {
  t.equal(passed(',"a":[[[[', inObject()), ',"a":[[');
  t.equal(passed(',"a":"","b":"","c":""', inObject({ keys: 7 })), ',"a":"","b":"",');
  t.equal(passed('"a":"" ', inObject({ expect: EXPECT_KEY })), '"a":"" ');
  const deep = `[[${"[".repeat(998)}${"]".repeat(998)}]]`;
  t.equal(scan(Buffer.from(deep), { maxDepth: 1000 }).end, 2000, "deeper than the stack's first size");
  t.throws(() => scan(Buffer.from(`[${deep}]`), { maxDepth: 1000 }), /Nested deeper than 1000 levels/);
  t.end();
});

t.test("the accepted texts are those that JSON.parse accepts, with any damage", (t) => {
  const random = dice(11);
  const texts = ["a", "", 'q"\\/\b\f\n\r\t', "\u00e9\u{1f600}", "x".repeat(40), "\u0000"];
  const value = (depth: number): unknown => {
    const kind = random(depth > 4 ? 4 : 7);
    if (kind === 0) return [1, -0.5, 1e9, true, null][random(5)];
    if (kind < 4) return texts[random(texts.length)];
    const length = random(4);
    if (kind === 4) return Array.from({ length }, () => value(depth + 1));
    return Object.fromEntries(Array.from({ length }, (_, i) => [`${texts[random(5)]}${i}`, value(depth + 1)]));
  };
  const spoils = ['"', "\\", "{", "}", "[", "]", ",", ":", "1", " ", "\n", "a", "u"];
  const isJson = (text: string): boolean => {
    try {
      JSON.parse(text);
      return true;
    } catch {
      return false;
    }
  };
  for (let n = 0; n < 4000; n++) {
    const whole = JSON.stringify(
      { m: Array.from({ length: 1 + random(12) }, () => value(0)), o: { x: value(0) } },
      null,
      random(2),
    );
    const at = random(whole.length);
    const text =
      n % 4 === 0 ? whole : `${whole.slice(0, at)}${spoils[random(spoils.length)]}${whole.slice(at + random(2))}`;
    let accepted = true;
    try {
      scan(Buffer.from(text), { duplicates: "allow" });
    } catch {
      accepted = false;
    }
    if (accepted !== isJson(text)) t.equal(accepted, isJson(text), text);
  }
  t.end();
});

t.test("lines are found up to a blank one, wherever it is and whatever was loaded before", (t) => {
  for (const length of [0, 1, 13, 14, 15, 16, 17, 40, 4090, 4091, 4092, 4093, 4094, 4095, 5000, 60_000]) {
    const lines = Buffer.from(`${"a\nb\r".repeat(length).slice(0, length)}\r\n`);
    const bytes = Buffer.concat([Buffer.from("xyz"), lines, Buffer.from("\r\nrest\r\n\r\n")]);
    t.equal(loadLines(bytes, 3, MAX_PIECE), lines.length, `${length}`);
    for (let cut = 0; cut < 3; cut++)
      t.equal(loadLines(bytes.subarray(0, lines.length + 3 + cut - 1), 3, MAX_PIECE), -1, `${length} cut`);
  }
  t.end();
});

t.test("a line's start and the end of its value are found for any position and any byte", (t) => {
  for (let length = 0; length < 40; length++) {
    const name = "x-abcdefghijklmnopqrstuvwxyz0123456789-a".slice(0, length);
    loadLines(Buffer.from(`-\r\n${name}: value\r\n\r\n`), 0, MAX_PIECE);
    t.ok(new LineStart(`${name}:`).isAt(3), name);
    for (let i = 0; i <= length; i++)
      t.notOk(new LineStart(`${name.slice(0, i)}_${name.slice(i + 1)}:`.slice(0, length + 1)).isAt(3), `${name} ${i}`);
  }
  for (let byte = 0; byte < 256; byte++) {
    loadLines(Buffer.from(`${"v".repeat(20)}${String.fromCharCode(byte)}v\r\n\r\n`, "latin1"), 0, MAX_PIECE);
    t.equal(valueEnd(byte % 20), (byte < 32 && byte !== 9) || byte === 127 ? 20 : 22, `${byte}`);
  }
  t.end();
});
