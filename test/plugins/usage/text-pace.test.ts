import t from "tap";
import { TextPace } from "../../../plugins/usage/text-pace.ts";

/** Returns the tokens before the text of a request that was sent at 1,000 ms, from times of text and tokens that have come by then. */
function tokensBefore(...texts: readonly (readonly [at: number, tokens: number])[]): number | undefined {
  const clock = { elapsed: 0 };
  const pace = new TextPace(clock);
  for (const [at, tokens] of texts) {
    clock.elapsed = at;
    pace.observe(tokens);
  }
  return pace.tokensBefore(1000);
}

t.test("before its text a model may have generated what fits into that time at the text's pace", async (t) => {
  t.equal(tokensBefore([11_500, 1], [12_500, 101]), 1000, "ten seconds at 100 tokens a second");
  t.equal(tokensBefore([11_500, 1], [12_000, 11], [13_500, 41]), 200, "at 20 tokens a second");
  t.equal(tokensBefore([11_500, 200], [12_500, 300]), 1000, "a long first piece tells no pace");
});

t.test("what a provider takes for preparation is not counted", async (t) => {
  t.equal(tokensBefore([1400, 1], [2400, 101]), 0);
  t.equal(tokensBefore([1600, 1], [2600, 101]), 10);
});

t.test("text that comes at once, or is short, tells no pace", async (t) => {
  t.equal(tokensBefore(), undefined);
  t.equal(tokensBefore([11_500, 500]), undefined);
  t.equal(tokensBefore([11_500, 1], [11_900, 500]), undefined);
  t.equal(tokensBefore([11_500, 1], [13_500, 30]), undefined);
});

t.test("a pace that no model has is not believed", async (t) => {
  t.equal(tokensBefore([11_500, 1], [12_500, 5001]), 4000);
  t.equal(tokensBefore([11_500, 1], [111_500, 51]), 50);
});
