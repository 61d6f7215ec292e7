import t from "tap";
import { MultiSearch } from "../../src/wire/multi-search.ts";

const WORDS = ['"file_id"', '"item_reference"', '"container"', '"vector_store_ids"'];

t.test("each text is found wherever it is and wherever the chunks are split", async (t) => {
  const any = new MultiSearch(WORDS);
  for (const word of WORDS)
    for (const before of [0, 1, 7, 60]) {
      const text = Buffer.from(`${"x".repeat(before)}${word}${"y".repeat(before % 5)}`);
      t.ok(any.occursIn([text]), `${word} after ${before}`);
      for (let cut = 0; cut <= text.length; cut++)
        if (!any.occursIn([text.subarray(0, cut), text.subarray(cut)])) t.fail(`${word} split at ${cut}`);
      t.ok(any.occursIn([...text].map((byte) => Buffer.of(byte))), "byte by byte");
    }
});

t.test("the result is that of a search for each, for random texts", async (t) => {
  const any = new MultiSearch(["aab", "abcab", "bb"]);
  for (let round = 0; round < 20_000; round++) {
    const length = Math.floor(Math.random() * 14);
    const text = Array.from({ length }, () => "abc"[Math.floor(Math.random() * 3)]).join("");
    const expected = ["aab", "abcab", "bb"].some((word) => text.includes(word));
    if (any.occursIn([Buffer.from(text)]) !== expected) t.equal(!expected, expected, text);
  }
});

t.test("each is found after a lot of data without any of their first bytes", async (t) => {
  const any = new MultiSearch(WORDS);
  const far = "x".repeat(20_000);
  for (const word of WORDS)
    for (const text of [far + word, `${word}${far}`, `"${far}"${far}${word}${far}`])
      t.ok(any.occursIn([Buffer.from(text)]), `${word} in ${text.length} bytes`);
  t.notOk(any.occursIn([Buffer.from(`"${far}"file_id${far}`)]));
});

t.test("without texts nothing is found", async (t) => {
  t.notOk(new MultiSearch([]).occursIn([Buffer.from("anything")]));
});

t.test("each of many texts is found, also behind a text full of their beginnings", async (t) => {
  const letters = [..."abcdefghijklmn"];
  const words = letters.flatMap((one) => letters.map((other) => `"${one}${other}!`));
  const all = new MultiSearch(words);
  const hostile = '"ab'.repeat(1000);
  t.notOk(all.occursIn([Buffer.from(hostile)]));
  const missed = words.filter((word) => !all.occursIn([Buffer.from(hostile + word)]));
  t.same(missed, []);
});
