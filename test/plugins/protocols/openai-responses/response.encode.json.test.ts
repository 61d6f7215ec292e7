import t from "tap";
import { JsonString, joined } from "../../../../plugins/protocols/openai-responses/response.encode.json.ts";

t.test("texts are joined by commas", async (t) => {
  t.same([[], ["1"], ["1", '"a"', "{}"]].map(joined), ["", "1", '1,"a",{}']);
});

t.test("a string has the same JSON in pieces as at once, also where a pair of surrogates is cut", async (t) => {
  const text = 'a"é😀\\\n😀\ud83d\ud83d\ude00\ude00z\ud83d';
  for (let size = 1; size <= text.length; size++) {
    const string = new JsonString();
    t.ok(string.isEmpty);
    for (let at = 0; at < text.length; at += size) {
      const piece = text.slice(at, at + size);
      t.equal(string.add(piece), JSON.stringify(piece));
    }
    t.notOk(string.isEmpty);
    t.equal(`${string}`, JSON.stringify(text), `pieces of ${size}`);
  }
  t.equal(`${new JsonString()}`, '""');
});
