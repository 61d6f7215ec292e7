import t from "tap";

// Written for browsers, and without types.
const { fits }: { fits: (pattern: string, text: string) => boolean } = await import(
  new URL("../../pages/common/pattern.js", import.meta.url).href
);

t.test("a name fits a pattern in which * is any text", async (t) => {
  for (const [pattern, text] of [
    ["fast", "fast"],
    ["fast-*", "fast-"],
    ["*", ""],
    ["a*b*c", "abbc"],
    ["*.5", "model-2.5"],
    ["a**b", "ab"],
  ] as const)
    t.ok(fits(pattern, text), `${pattern} ${text}`);
  for (const [pattern, text] of [
    ["fast", "fast-1"],
    ["fast-*", "fast"],
    ["ab*ba", "aba"],
    ["a*b*c", "acb"],
    ["*.5", "model-2x5"],
  ] as const)
    t.notOk(fits(pattern, text), `${pattern} ${text}`);
});
