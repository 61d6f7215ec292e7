import t from "tap";
import { estimateTextTokens } from "../../src/translation/text-tokens.ts";
import { charactersRead } from "../support/linear-work.ts";

t.test("a long text has as many tokens as its parts, although only samples of it are counted", async (t) => {
  const parts = ["3.14159,2.71828\n".repeat(2000), "The quick brown fox. ".repeat(2000), "a1b2c3d4".repeat(4000)];
  for (const part of [...parts, parts.join("")]) {
    const ratio = estimateTextTokens(part.repeat(20)) / (20 * estimateTextTokens(part));
    t.ok(ratio > 0.9 && ratio < 1.1, `${ratio}: ${part.slice(0, 20)}`);
  }
});

t.test("of a long text only a small part is gone through", async (t) => {
  const letters = charactersRead(() => estimateTextTokens("1234567890".repeat(1_000_000)));
  t.ok(letters < 300_000, `${letters}`);
});
