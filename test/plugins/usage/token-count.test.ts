import t from "tap";
import { estimateTokens } from "../../../plugins/usage/token-count.ts";

t.test("words, numbers and punctuation are counted as tokenizers split them", async (t) => {
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
    t.equal(estimateTokens(text), tokens, JSON.stringify(text));
});

t.test("other scripts have more tokens than words", async (t) => {
  t.ok(estimateTokens("東京は晴れです") >= 6);
  t.ok(estimateTokens(" Привет") >= 3);
  t.equal(estimateTokens("é"), 1);
});

t.test("a piece of an answer is at least one token", async (t) => {
  t.equal(estimateTokens("a"), 1);
  t.equal(estimateTokens(" "), 1);
});

t.test("a long text takes linear time", async (t) => {
  for (const text of ["a".repeat(200_000), " ".repeat(200_000), "\n ".repeat(100_000), "'".repeat(200_000)])
    t.ok(estimateTokens(text) > 0);
});

t.test("of a very long text only samples are counted, and the estimate is near", async (t) => {
  const words = "The quick brown fox jumps over 12345 lazy dogs, again and again. ";
  const times = 300_000;
  const text = words.repeat(times);
  const tokens = estimateTokens(text);
  const noise = ". 1 ".repeat(50);
  const changed = Array.from({ length: 20 }, (_, i) => {
    const at = Math.floor(((i + 0.5) * text.length) / 20.5);
    return estimateTokens(text.slice(0, at) + noise + text.slice(at + noise.length));
  });
  t.ok(changed.filter((each) => each === tokens).length >= 15, "most places are not read");
  const expected = estimateTokens(words.repeat(300)) * (times / 300);
  t.ok(Math.abs(tokens - expected) < expected / 50, `${tokens} for ${expected}`);
});
