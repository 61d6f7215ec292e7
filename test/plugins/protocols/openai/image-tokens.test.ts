import t from "tap";
import { imageTokens as tokensOf, usualImageTokens } from "../../../../plugins/protocols/openai/image-tokens.ts";

const imageTokens = (model: string | undefined, size: unknown, quality: unknown, partial_images?: unknown) =>
  tokensOf(model, (name) => ({ size, quality, partial_images })[name]);

t.test("tokens of an image are those of its model, size and quality", async (t) => {
  for (const [model, size, quality, tokens] of [
    ["gpt-image-1", "1024x1024", "low", 272],
    ["gpt-image-1.5", "1024x1536", "high", 6240],
    ["gpt-image-1-mini", "1536x1024", "medium", 1568],
    // The vendor's prices of $0.006, $0.053 and $0.211 at $30 a million, and a recorded answer.
    ["gpt-image-2", "1024x1024", "low", 196],
    ["gpt-image-2", "1024x1024", "medium", 1756],
    ["gpt-image-2", "1024x1024", "high", 7024],
    ["gpt-image-2", "1536x1024", "high", 5488],
    ["gpt-image-2", "3840x2160", "high", 13_342],
  ] as const)
    t.equal(imageTokens(model, size, quality), tokens, `${model} ${size} ${quality}`);
});

t.test("what a request leaves open counts as the dearest", async (t) => {
  for (const open of [undefined, "auto", 7, null, {}, { toString: 1 }, [{ toString: 1 }], "high\n"]) {
    t.equal(imageTokens("gpt-image-1", open, open), 6240);
    t.equal(imageTokens("gpt-image-1", open, "low"), 408);
    t.equal(imageTokens("gpt-image-1", "1024x1024", open), 4160);
    t.equal(imageTokens("gpt-image-2", open, open), imageTokens("gpt-image-2", "1024x1024", "high"));
  }
  for (const size of ["00x00", "0x0", "1024x", "01x99", "1024X1024", "1e3x1e3", "100000x10"])
    t.equal(imageTokens("gpt-image-2", size, "high"), 7024, size);
  t.ok(imageTokens("gpt-image-2", "10x99999", "low") >= 1, "a line still has tokens");
  t.equal(imageTokens(undefined, "1024x1536", "high"), 6240);
  t.equal(imageTokens("deployment", "1024x1024", "high"), imageTokens("gpt-image-2", "1024x1024", "high"));
});

t.test("each preview of an image takes tokens, all of them where their number cannot be read", async (t) => {
  for (const [partials, tokens] of [
    ...([undefined, null, 0, "0"] as const).map((none) => [none, 0] as const),
    ...([1, "1"] as const).map((one) => [one, 100] as const),
    ...[3, "3", 9, -1, 1.5, "", "01", {}, { toString: 1 }, true].map((all) => [all, 300] as const),
  ])
    t.equal(imageTokens("gpt-image-1", "1024x1024", "low", partials), 272 + tokens, JSON.stringify(partials));
});

t.test("an image that was not reported counts as it was asked for, and a usual one where that is open", async (t) => {
  const usual = (model: string | undefined, asked: Readonly<Record<string, unknown>>) =>
    usualImageTokens(model, (name) => asked[name]);
  t.equal(usual("gpt-image-1", {}), 4160);
  t.equal(usual("gpt-image-2", { size: "auto", quality: "auto", partial_images: 3 }), 4160);
  t.equal(usual(undefined, { size: {}, quality: ["low"] }), 4160);
  t.equal(usual("gpt-image-1", { quality: "low" }), 272, "a square");
  t.equal(usual("gpt-image-1.5", { size: "1024x1536" }), 6240, "of high quality");
  t.equal(usual(undefined, { size: "1536x1024", quality: "medium" }), 1568);
  t.equal(usual("gpt-image-2", { size: "3840x2160", quality: "high" }), 13_342);
  t.equal(usual(undefined, { size: "3840x2160", quality: "high" }), 13_342, "which only some models draw");
  t.equal(usual("gpt-image-2", { quality: "low" }), 196);
});
