import t from "tap";
import { type Shape, withShape } from "../../src/core/shape.ts";

interface Thing {
  name: string;
  weight?: number;
  note?: string;
}
const THING: Shape<Thing> = { name: true, weight: true, note: true };

t.test("an object has every member in the same order, whichever were set", async (t) => {
  const all = [{ name: "a" }, { note: "n", name: "b" }, { weight: 1, note: "n", name: "c" }].map((each) =>
    withShape(THING, each),
  );
  for (const each of all) t.same(Object.keys(each), ["name", "weight", "note"]);
  t.same(JSON.parse(JSON.stringify(all)), [
    { name: "a" },
    { name: "b", note: "n" },
    { name: "c", weight: 1, note: "n" },
  ]);
});

t.test("members that its type lacks are left out", async (t) => {
  const record: Thing & { secret: string } = { name: "a", secret: "s" };
  t.notOk("secret" in withShape<Thing>(THING, record));
});
