import t from "tap";
import { Body } from "../../src/core/body.ts";
import { scan } from "../../src/wire/json.ts";

const CHAT = Buffer.from('{"model":"fast","messages":[{"role":"user","content":"é😀 12345678901234567890"}],"n":1.0}');

t.test("slices come without a copy where one piece holds them, and right where several do", async (t) => {
  for (let cut = 0; cut <= CHAT.length; cut += 3) {
    const pieces = [CHAT.subarray(0, cut), CHAT.subarray(cut)];
    for (let from = 0; from < CHAT.length; from += 5) {
      const body = new Body(pieces, scan(CHAT));
      const slice = body.slice(from, from + 10);
      t.ok(slice.equals(CHAT.subarray(from, from + 10)));
      if (from + 10 <= cut || from >= cut) t.equal(slice.byteOffset, CHAT.byteOffset + from);
    }
  }
  t.equal(new Body([CHAT], undefined).slice(5, 5).length, 0);
});

t.test("a whole body is joined and parsed once", async (t) => {
  const body = new Body([CHAT.subarray(0, 10), CHAT.subarray(10)], scan(CHAT));
  t.equal(body.bytes(), body.bytes());
  t.strictSame(body.pieces, [body.bytes()], "the pieces are let go");
  t.equal(body.json(), body.json());
  t.equal(new Body([CHAT], undefined).bytes(), CHAT, "one piece is not copied");
  t.throws(() => new Body([Buffer.from("{")], undefined).json(), { code: "invalid_json" });
  t.equal(Body.empty.length, 0);
  t.equal(Body.empty.bytes().length, 0);
});
