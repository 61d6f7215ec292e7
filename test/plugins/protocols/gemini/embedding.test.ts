import t from "tap";
import { embedding } from "../../../../plugins/protocols/gemini/embedding.ts";

const likeness = (a: number[], b: number[]) => a.reduce((sum, value, i) => sum + value * (b[i] as number), 0);

t.test("a vector has length 1 and the dimensions asked for, within bounds", async (t) => {
  for (const [asked, got] of [
    [undefined, 768],
    [3, 3],
    [0, 1],
    [9999, 3072],
  ] as const) {
    const vector = embedding("some words", asked);
    t.equal(vector.length, got);
    t.ok(Math.abs(likeness(vector, vector) - 1) < 1e-9);
  }
  t.ok(Math.abs(likeness(embedding(""), embedding("")) - 1) < 1e-9);
});

t.test("texts that share words are alike, and the same text is the same", async (t) => {
  const cat = embedding("The cat sat on the mat");
  t.same(embedding("The cat sat on the mat"), cat);
  t.ok(likeness(cat, embedding("the CAT on a mat!")) > likeness(cat, embedding("quarterly revenue grew")));
});
