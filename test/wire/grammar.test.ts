import t from "tap";
import { ESCAPES, findByte, HEX, NUMBER_MAY_END, NUMBER_STEPS, SPACES, skipPlain } from "../../src/wire/grammar.ts";
import { gathered } from "../support/gathered.ts";

const members = (table: Uint8Array): string =>
  Array.from(table, (value, byte) => (value === 1 ? String.fromCharCode(byte) : "")).join("");

t.test("the tables contain the bytes of RFC 8259", async (t) => {
  t.equal(members(SPACES), "\t\n\r ");
  t.equal(members(ESCAPES), '"/\\bfnrt');
  t.equal(members(HEX), "0123456789ABCDEFabcdef");
});

t.test("the steps of a number accept what JSON.parse accepts", async (t) => {
  const alphabet = [..."-+.0129eE"];
  const accepted = (text: string): boolean => {
    let at = 0;
    for (const byte of Buffer.from(text)) {
      at = NUMBER_STEPS[256 * at + byte] as number;
      if (at === 0) return false;
    }
    return NUMBER_MAY_END[at] === true;
  };
  const parsed = (text: string): boolean => {
    try {
      return typeof JSON.parse(text) === "number";
    } catch {
      return false;
    }
  };
  const different: string[] = [];
  const walk = (text: string): void => {
    if (accepted(text) !== parsed(text)) different.push(text);
    if (text.length < 5) for (const letter of alphabet) walk(text + letter);
  };
  walk("");
  t.strictSame(different, []);
});

gathered(t, "skips what means itself in a string", async (t) => {
  for (let byte = 0; byte < 256; byte++) {
    const plain = byte >= 32 && byte !== 34 && byte !== 92;
    t.equal(skipPlain(Buffer.from([97, byte, 97]), 0, 3), plain ? 3 : 1);
  }
  t.equal(findByte(Buffer.from("abc"), 98, 2), 3);
});
