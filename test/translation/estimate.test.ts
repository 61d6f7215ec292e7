import t from "tap";
import type { Conversation, Part } from "../../src/conversation.ts";
import { estimate } from "../../src/translation/estimate.ts";

const talk = (...parts: Part[]): Conversation => ({
  protocol: "p",
  task: "count",
  stream: false,
  turns: [{ role: "user", parts, at: "m" }],
  tools: [],
  said: [],
});
const media = (media: "image" | "audio" | "video" | "file", base64: string): Part => ({
  kind: "media",
  media,
  source: { base64 },
  at: "m",
});

t.test("text counts a token for three bytes, rounded up", async (t) => {
  t.equal(estimate(talk(), "a".repeat(300)), 100);
  t.equal(estimate(talk(), "a".repeat(301)), 101);
  t.equal(estimate(talk(), "字".repeat(100)), 100);
});

t.test("pictures and the like count by themselves, not by their bytes", async (t) => {
  const base64 = "A".repeat(100_000);
  t.equal(estimate(talk(media("image", base64)), `{"x":"${base64}"}`), Math.ceil(8 / 3) + 1600);
  const inside: Part = { kind: "tool_result", callId: "c", parts: [media("image", base64)], at: "r" };
  t.equal(estimate(talk(inside), base64), 1600);
  t.equal(estimate(talk({ kind: "media", media: "image", source: { url: "https://x" }, at: "m" }), ""), 1600);
});

t.test("what has a length counts more the longer it is", async (t) => {
  const short = estimate(talk(media("file", "A".repeat(1000))), "A".repeat(1000));
  const long = estimate(talk(media("file", "A".repeat(1_300_000))), "A".repeat(1_300_000));
  t.equal(short, 3200);
  t.equal(long, 32_000);
});
