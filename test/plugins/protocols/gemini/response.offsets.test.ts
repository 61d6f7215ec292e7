import t from "tap";
import { Offsets } from "../../../../plugins/protocols/gemini/response.offsets.ts";

/** Text of characters of one to four bytes, halves of pairs among them, long enough for many marks. */
const MIXED = "aé€😀\ud83d b\ude00".repeat(2000);

t.test("a place in characters is the place in bytes", async (t) => {
  const offsets = new Offsets("Größe 😀!");
  t.equal(offsets.length, 13);
  for (const [character, byte] of [
    [0, 0],
    [3, 4],
    [5, 7],
    [6, 8],
    [8, 12],
    [9, 13],
  ] as const) {
    t.equal(offsets.bytesBefore(character), byte);
    t.equal(offsets.charactersBefore(byte), character);
  }
});

t.test("a long text counts as if it was measured from its start each time", async (t) => {
  const offsets = new Offsets(MIXED);
  const encoded = Buffer.from(MIXED);
  t.equal(offsets.length, encoded.length);
  for (let at = 0; at <= MIXED.length; at += 7) {
    const bytes = Buffer.byteLength(MIXED.slice(0, at));
    if (offsets.bytesBefore(at) !== bytes) t.fail(`${at} characters are ${bytes} bytes`);
  }
  for (let at = 0; at <= encoded.length; at += 7) {
    const characters = encoded.toString("utf8", 0, at).length;
    if (offsets.charactersBefore(at) !== characters) t.fail(`${at} bytes are ${characters} characters`);
  }
});

t.test("an empty text has one place", async (t) => {
  const offsets = new Offsets("");
  t.strictSame([offsets.length, offsets.bytesBefore(0), offsets.charactersBefore(0)], [0, 0, 0]);
});
