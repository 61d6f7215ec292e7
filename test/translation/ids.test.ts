import t from "tap";
import { callIds, safeId, TextKey } from "../../src/translation/ids.ts";

t.test("an id that every protocol takes stays as it is", async (t) => {
  for (const id of ["call_1", "toolu_01-x", "a".repeat(64)]) t.equal(safeId(id), id);
});

t.test("another one becomes one, the same each time, and different ones stay different", async (t) => {
  const ids = ["functions.Bash:0", "functions_Bash:0", "", "é", "a".repeat(65), `${"a".repeat(65)}b`, "x".repeat(5000)];
  for (const id of ids) {
    const safe = safeId(id);
    t.match(safe, /^[a-zA-Z0-9_-]{1,64}$/);
    t.equal(safeId(id), safe);
    t.equal(safeId(safe), safe, "made once, it stays");
  }
  t.equal(new Set(ids.map(safeId)).size, ids.length);
});

t.test("ids made for an answer are the same for the same answer", async (t) => {
  const [one, other] = [callIds("answer:1"), callIds("answer:1")];
  const ids = [one(), one(), one()];
  t.same(ids, [other(), other(), other()]);
  t.equal(new Set(ids).size, 3);
  for (const id of ids) t.equal(safeId(id), id);
  t.notSame(callIds("answer:2")(), ids[0]);
});

t.test("a text is known by its length and its end, however it came", async (t) => {
  const text = "Ä long ".repeat(40);
  const whole = `${new TextKey().add(text)}`;
  for (const size of [1, 3, 63, 64, 65, 200]) {
    const key = new TextKey();
    for (let at = 0; at < text.length; at += size) key.add(text.slice(at, at + size));
    t.equal(`${key}`, whole);
  }
  t.not(`${new TextKey().add(`x${text}`)}`, whole);
  t.not(`${new TextKey().add(`${text}x`)}`, whole);
});
