import t from "tap";
import { splitIntoFrames, splitReceived } from "../../src/core/answer-frames.ts";

const shown = (text: string, framing?: "sse" | "array") =>
  splitIntoFrames(Buffer.from(text), framing).map(({ kind, bytes }) => [kind, bytes.toString()]);

t.test("a complete response becomes the frames of a stream, and its end", async (t) => {
  t.same(shown("data: 1\n\ndata: 2\n\n", "sse"), [
    ["event", "data: 1\n\n"],
    ["event", "data: 2\n\n"],
    ["end", ""],
  ]);
  t.same(shown("data: 1", "sse"), [
    ["event", "data: 1"],
    ["end", ""],
  ]);
  t.equal(shown('[{"a":1},{"b":2}]', "array").filter(([kind]) => kind === "element").length, 3);
  t.same(shown("{}"), [
    ["piece", "{}"],
    ["end", ""],
  ]);
  t.same(shown(""), [["end", ""]]);
});

t.test("a frame that is too large is the provider's fault", async (t) => {
  const bytes = Buffer.alloc(17 << 20, "x");
  for (const framing of ["sse", "array"] as const)
    t.throws(() => splitIntoFrames(bytes, framing), { code: "upstream_invalid" });
});

t.test(
  "a response of very many frames is the provider's fault: each takes a hundred times its bytes in memory",
  async (t) => {
    for (const [framing, text] of [
      ["sse", "a\n\n".repeat(600_000)],
      ["array", `[${"1,".repeat(600_000)}1]`],
    ] as const) {
      const bytes = Buffer.from(text);
      t.throws(() => splitIntoFrames(bytes, framing), { code: "upstream_invalid" });
      t.throws(() => splitReceived(bytes, framing), { message: "The answer has more than 500000 events." });
      t.ok(splitIntoFrames(bytes.subarray(0, bytes.length / 2), framing).length > 300_000);
    }
  },
);
