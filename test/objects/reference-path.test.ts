import t from "tap";
import { type PathNode, paramOf } from "../../src/objects/reference-path.ts";

t.test("a path is written from its first step to its last", async (t) => {
  const input: PathNode = { step: "input" };
  t.equal(paramOf({ above: { above: input, step: 1 }, step: "id" }), "input.1.id");
  t.equal(paramOf(input), "input");
  t.equal(paramOf(undefined), "");
});

t.test("of a long path the beginning is written: many objects may be below long names", async (t) => {
  const path: PathNode = { above: { above: { step: "input" }, step: "x".repeat(1000) }, step: "id" };
  t.equal(paramOf(path), "input.…");
});
