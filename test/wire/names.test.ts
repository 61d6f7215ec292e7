import t from "tap";
import { known } from "../../src/wire/names.ts";

t.test("a name is known in every spelling, and its key is one string", (t) => {
  t.match(known("Content-Type"), { spelling: "Content-Type", key: "content-type", valid: true, hop: false });
  t.match(known("CONNECTION"), { spelling: "CONNECTION", key: "connection", valid: true, hop: true });
  t.equal(known("content-type").key, known("CONTENT-type").key);
  t.end();
});

t.test("what is no token is no name", (t) => {
  for (const name of ["", " ", "a b", "a:b", "a\r\nb", "caf\u{e9}", "\0"]) t.notOk(known(name).valid, name);
  t.ok(known("b!#$%&'*+-.^_`|~9").valid);
  t.end();
});

t.test("made-up names are answered rightly, however many there are and however long", (t) => {
  const numbers = Array.from({ length: 5000 }, (_, i) => i);
  t.same(
    numbers.filter((i) => known(`X-${i}`).key !== `x-${i}`),
    [],
  );
  t.equal(known("X".repeat(5000)).key, "x".repeat(5000));
  t.ok(known("transfer-encoding").hop);
  t.end();
});
