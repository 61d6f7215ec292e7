import t from "tap";
import { type PathNode, paramOf } from "../../src/objects/reference-path.ts";

t.test("a path is written from its first step to its last", async (t) => {
  const input: PathNode = { step: "input" };
  t.equal(paramOf({ above: { above: input, step: 1 }, step: "id" }), "input.1.id");
  t.equal(paramOf(input), "input");
  t.equal(paramOf(undefined), "");
});
