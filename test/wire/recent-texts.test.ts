import t from "tap";
import { recentName, recentText } from "../../src/wire/recent-texts.ts";
import { dice } from "../support/dice.ts";

t.test("bytes are decoded, whatever was decoded before them", async (t) => {
  const texts = [
    "",
    "a",
    "ab",
    "ba",
    '"gpt-5"',
    '"gpt-4"',
    "é",
    "Ã©",
    "\u0000",
    "日本",
    "x".repeat(64),
    "y".repeat(65),
  ];
  for (const text of [...texts, ...texts.toReversed(), ...texts]) {
    const bytes = Buffer.from(`<${text}>`);
    t.equal(recentText(bytes, 1, bytes.length - 1), text);
  }
});

t.test("texts with the same slot are told apart", async (t) => {
  const cast = dice(7);
  const letter = () => "abAB"[cast(4)] as string;
  for (let i = 0; i < 20_000; i++) {
    const text = Array.from({ length: cast(5) }, letter).join("");
    if (recentText(Buffer.from(text), 0, text.length) !== text) t.fail(text);
  }
});

t.test("invalid UTF-8 is decoded as Buffer does it, and not taken for a text before", async (t) => {
  const invalid = Buffer.from([0x61, 0xe9, 0x62]);
  t.equal(recentText(Buffer.from("a\ufffdb"), 0, 5), "a\ufffdb");
  for (let i = 0; i < 2; i++) t.equal(recentText(invalid, 0, 3), invalid.toString());
});

t.test("reads names plain, escaped, long, and beyond ASCII, again and again", async (t) => {
  for (const name of [
    "model",
    "",
    'a"b\\c\n',
    "é",
    "😀",
    "x".repeat(31),
    "x".repeat(33),
    `${"x".repeat(40)}\n`,
    "\u0001",
  ])
    for (let round = 0; round < 3; round++) {
      const bytes = Buffer.from(`  ${JSON.stringify(name)}`);
      t.equal(recentName(bytes, 3, bytes.length - 1), name);
    }
  for (let i = 0; i < 2000; i++) {
    const bytes = Buffer.from(`"name${i}"`);
    t.equal(recentName(bytes, 1, bytes.length - 1), `name${i}`, "names that share a slot are not confused");
  }
});
