import t from "tap";
import { joinPieces, totalLength } from "../../src/wire/pieces.ts";

t.test("pieces are joined, and a single one is not copied", async (t) => {
  const pieces = ["one", "", "two"].map((text) => Buffer.from(text));
  t.equal(joinPieces(pieces).toString(), "onetwo");
  t.equal(joinPieces(pieces.slice(0, 1)), pieces[0]);
  t.equal(joinPieces([]).length, 0);
  t.equal(totalLength(pieces), 6);
});
