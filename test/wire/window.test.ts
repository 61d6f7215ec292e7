import t from "tap";
import { FAULT, Window } from "../../src/wire/window.ts";

/** Where a string ends, the slow way. */
function expected(bytes: Buffer, from: number, checked: number): number {
  let i = from;
  for (; i < bytes.length; i++) {
    const byte = bytes[i] as number;
    if (byte === 34) return i;
    if (byte < 32 && i < checked) return FAULT;
    if (byte !== 92) continue;
    const rest = bytes.toString("latin1", i + 1, i + 6);
    if (i < checked && !/^(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/.test(rest)) return FAULT;
    i += i < checked && rest[0] === "u" ? 5 : 1;
  }
  return i;
}

const PARTS = [
  ...['"', "\\", '\\"', "\\\\", "\\n", "\\u00e9", "\\u12", "\\x", "\n", "\x1f", " ", "#", "]", "\x7f", "\xff"],
  ...["a", "plain", "z".repeat(30), "y".repeat(300), "x".repeat(1500)],
];

t.test("the end of a string is found wherever words, edges and long plain text lie", (t) => {
  let seed = 7;
  const random = (n: number): number => {
    seed = (seed * 1103515245 + 12345) & 0x7fffffff;
    return (seed >> 8) % n;
  };
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

t.test("the leap stops at the first quote that counts, or says from where to look on", (t) => {
  const leap = (text: string) => new Window(Buffer.from(text)).leap(0);
  t.equal(leap('aa"a'), 2);
  t.equal(leap('a\\\\"a'), 3);
  t.equal(leap('a\\"a"'), -3);
  t.equal(leap("aaa"), 3);
  t.equal(leap("aa\\"), 4);
  t.equal(leap(""), 0);
  t.end();
});
