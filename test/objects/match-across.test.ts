import t from "tap";
import { matchesAcross } from "../../src/objects/match-across.ts";

t.test("a pattern is found in pieces of any length, and only as far back as it reaches", async (t) => {
  const text = "some words, \\u0066 and more";
  for (let length = 1; length <= text.length; length++) {
    const pieces = Array.from({ length: Math.ceil(text.length / length) }, (_, i) =>
      Buffer.from(text.slice(i * length, (i + 1) * length)),
    );
    t.equal(matchesAcross(pieces, /\\u00[0-9a-f]{2}/, 6), true, `pieces of ${length}`);
    t.equal(matchesAcross(pieces, /\\u01[0-9a-f]{2}/, 6), false, `pieces of ${length}`);
  }
});
