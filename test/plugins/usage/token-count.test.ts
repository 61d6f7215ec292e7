import t from "tap";
import { tokensOf } from "../../../plugins/usage/token-count.ts";

t.test("words, numbers and signs are counted as tokenizers cut them", async (t) => {
  for (const [text, tokens] of [
    ["", 0],
    [" the", 1],
    ["The quick brown fox.", 5],
    ["it's", 2],
    ["12345", 2],
    [".\n\n", 1],
    ['{"city":"Paris"}', 5],
    ["  indented", 2],
    [" incomprehensibilities", 4],
    ["\n\n", 1],
  ] as const)
    t.equal(tokensOf(text), tokens, JSON.stringify(text));
});

t.test("other scripts have more tokens than words", async (t) => {
  t.ok(tokensOf("東京は晴れです") >= 6);
  t.ok(tokensOf(" Привет") >= 3);
  t.equal(tokensOf("é"), 1);
});

t.test("a piece of an answer is a token at least", async (t) => {
  t.equal(tokensOf("a"), 1);
  t.equal(tokensOf(" "), 1);
});

t.test("a long text takes time as its length", async (t) => {
  for (const text of ["a".repeat(200_000), " ".repeat(200_000), "\n ".repeat(100_000), "'".repeat(200_000)])
    t.ok(tokensOf(text) > 0);
});
