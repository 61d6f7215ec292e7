import t from "tap";
import { jsonString, needsNoEscapes } from "../../src/wire/json-string.ts";

t.test("every character is written as by JSON.stringify, in any position", async (t) => {
  const wrong: number[] = [];
  for (let code = 0; code <= 0xffff; code++) {
    const character = String.fromCharCode(code);
    for (const text of [character, `${character}b`, `a${character}`, `a${character}${character}b`])
      if (jsonString(text) !== JSON.stringify(text)) wrong.push(code);
  }
  t.strictSame(wrong, []);
  t.equal(jsonString(""), '""');
  t.equal(jsonString("😀"), JSON.stringify("😀"));
});

t.test("printable ASCII without quotes and backslashes is plain, and nothing else", async (t) => {
  for (let code = 0; code < 0x180; code++) {
    const expected = code >= 0x20 && code < 0x7f && code !== 0x22 && code !== 0x5c;
    if (needsNoEscapes(String.fromCharCode(code)) !== expected) t.fail(`the character ${code}`);
  }
  t.pass();
});
