import t from "tap";
import { Occurrences } from "../../src/wire/occurrences.ts";

const TEXT = Buffer.from('{"data":[{"url":"a"},{"url":"b \\"url\\" c"},{"url" : "d"}]}');

t.test("a text is counted wherever the chunks are split", async (t) => {
  for (let size = 1; size <= TEXT.length; size++) {
    const found = new Occurrences('"url"');
    for (let at = 0; at < TEXT.length; at += size) found.push(TEXT.subarray(at, at + size));
    if (found.count !== 3) t.fail(`${found.count} in pieces of ${size}`);
  }
  t.pass();
});

t.test("occurrences do not overlap, in one chunk as in many", async (t) => {
  for (const size of [1, 2, 3, 5, 7]) {
    const found = new Occurrences("aba");
    const text = Buffer.from("ababaaba");
    for (let at = 0; at < text.length; at += size) found.push(text.subarray(at, at + size));
    t.equal(found.count, 2, `in pieces of ${size}`);
  }
});
