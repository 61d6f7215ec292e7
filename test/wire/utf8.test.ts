import t from "tap";
import { sanitizeText, Utf8Validator } from "../../src/wire/utf8.ts";

function check(pieces: readonly Buffer[]): number {
  const utf8 = new Utf8Validator();
  for (const piece of pieces) {
    const wrong = utf8.push(piece);
    if (wrong >= 0) return wrong;
  }
  return utf8.end();
}

/** What the check says of the bytes whole, byte by byte, and cut in three anywhere. */
function answers(bytes: Buffer): number[] {
  const seen = new Set([check([bytes]), check(Array.from(bytes, (byte) => Buffer.from([byte])))]);
  for (let i = 0; i <= bytes.length; i++)
    for (let k = i; k <= bytes.length; k++)
      seen.add(check([bytes.subarray(0, i), bytes.subarray(i, k), bytes.subarray(k)]));
  return [...seen];
}

t.test("complete characters pass wherever they are split", async (t) => {
  for (const text of ["", "ascii", "é", "中文", "😀😀", "a\u0000b", "\u07ff\u0800\uffff\u{10000}\u{10ffff}"])
    t.strictSame(answers(Buffer.from(text)), [-1], JSON.stringify(text));
});

t.test("the first invalid byte is reported wherever the text is split", async (t) => {
  for (const [hex, wrong] of [
    ["61ff", 1],
    ["c0ae", 0], // overlong
    ["e080af", 0], // overlong
    ["61eda08062", 1], // a surrogate
    ["f4908080", 0], // above U+10FFFF
    ["6180", 1], // a continuation without a lead
    ["c361", 0], // a lead without its continuation
    ["61c3a9e282", 3], // ends too early
    ["f09f98", 0],
  ] as const)
    t.strictSame(answers(Buffer.from(hex, "hex")), [wrong], hex);
});

t.test("a text for PostgreSQL has no NUL and no lone surrogate", async (t) => {
  t.equal(sanitizeText("a\0b\ud800c"), "a\ufffdb\ufffdc");
  t.equal(sanitizeText("é😀\t"), "é😀\t");
});
