import { createHash } from "node:crypto";
import t from "tap";
import type { Conversation, Part } from "../../src/translation/conversation.ts";
import { estimateMediaTokens, estimateRequestTokens } from "../../src/translation/estimate.ts";
import { charactersRead } from "../support/linear-work.ts";

const talk = (...parts: Part[]): Conversation => ({
  protocol: "p",
  task: "count",
  stream: false,
  turns: [{ role: "user", parts, at: "m" }],
  tools: [],
  uses: [],
});
const media = (media: "image" | "audio" | "video" | "file", base64: string): Part => ({
  kind: "media",
  media,
  source: { base64 },
  at: "m",
});

t.test("text counts one token per three bytes, rounded up", async (t) => {
  t.equal(estimateRequestTokens(talk(), "a".repeat(300)), 100);
  t.equal(estimateRequestTokens(talk(), "a".repeat(301)), 101);
  t.equal(estimateRequestTokens(talk(), "字".repeat(100)), 100);
  t.equal(estimateRequestTokens(talk(), 301), 101);
});

t.test("anything else takes time proportional to the request, wherever it is", async (t) => {
  const work = (count: number, order: "as told" | "reversed" | "escaped") => {
    const all = Array.from({ length: count }, (_, n) => `AA${String(n).padStart(6, "0")}/`);
    const text = JSON.stringify({ all: order === "reversed" ? all.toReversed() : all, text: "b".repeat(20 * count) });
    const parts = all.map((base64) => media("image", base64));
    // Counted in letters that are gone through, not in seconds.
    const { includes, indexOf } = String.prototype;
    let letters = 0;
    String.prototype.indexOf = function (this: string, what, from = 0) {
      const at = indexOf.call(this, what, from);
      letters += (at < 0 ? this.length : at) - from;
      return at;
    };
    String.prototype.includes = function (this: string, what, from = 0) {
      letters += this.length;
      return includes.call(this, what, from);
    };
    try {
      estimateRequestTokens(talk(...parts), order === "escaped" ? text.replaceAll("/", "\\/") : text);
    } finally {
      Object.assign(String.prototype, { includes, indexOf });
    }
    return letters / text.length;
  };
  for (const order of ["as told", "reversed", "escaped"] as const)
    t.ok(work(2000, order) < 5, `${order}: the text is scanned ${work(2000, order)} times`);
});

t.test("prose and code count by their bytes, in any script", async (t) => {
  const texts = [
    'The quick brown fox jumps over the lazy dog, and Dr. Who (born in 1963) says: "It\'s fine!" '.repeat(20),
    "Die Straße läuft über grüne Hügel, und überall hört man Vögel. ".repeat(20),
    "Привет, как дела сегодня? Всё хорошо, спасибо. ".repeat(20),
    "export function toolsOf(conversation: Conversation, terms: Terms): Tool[] {\n  return conversation.tools;\n}\n",
  ];
  for (const text of texts) {
    const bytes = Buffer.byteLength(text);
    const estimated = estimateRequestTokens(talk(), text);
    t.ok(
      estimated >= bytes / 3 && estimated < (bytes / 3) * 1.05,
      `${estimated} for ${bytes} bytes: ${text.slice(0, 40)}`,
    );
  }
});

t.test("numbers, ids and random letters count at least as much as with the vendor's tokenizer", async (t) => {
  const hash = (encoding: "hex" | "base64") => {
    const hashes = Array.from({ length: 50 }, (_, i) => createHash("sha256").update(`${i}`).digest());
    return Buffer.concat(hashes).toString(encoding);
  };
  // Counted with o200k_base.
  const counted: [text: string, tokens: number][] = [
    ["3.14159,2.71828\n".repeat(200), 2000],
    ["a1b2c3d4".repeat(100), 800],
    [hash("hex"), 1807],
    [hash("base64"), 1438],
    ["| 17 | -0.5772156649 | 2026-11-21T20:49:10Z |\n".repeat(50), 1350],
  ];
  for (const [text, tokens] of counted) {
    const estimated = estimateRequestTokens(talk(), JSON.stringify(text));
    t.ok(estimated >= tokens && estimated < tokens * 1.4, `${estimated} for ${tokens}: ${text.slice(0, 40)}`);
  }
});

t.test("images and other media count by kind, not by their bytes", async (t) => {
  const base64 = "A".repeat(100_000);
  t.equal(estimateRequestTokens(talk(media("image", base64)), `{"x":"${base64}"}`), 6 + 1600);
  const inside: Part = { kind: "tool_result", callId: "c", parts: [media("image", base64)], at: "r" };
  t.equal(estimateRequestTokens(talk(inside), base64), 1600);
  t.equal(
    estimateRequestTokens(talk({ kind: "media", media: "image", source: { url: "https://x" }, at: "m" }), ""),
    1600,
  );
});

t.test("images are not read, and of many text files only small parts are gone through", async (t) => {
  const all = (kind: "image" | "file") => talk(...Array(100).fill(media(kind, "QUJD".repeat(20_000))));
  const ofImages = charactersRead(() => {
    t.equal(estimateMediaTokens(all("image")), 160_000);
    t.equal(estimateRequestTokens(all("image"), 0), 160_000);
  });
  t.equal(ofImages, 0);
  const ofFiles = charactersRead(() => t.equal(estimateMediaTokens(all("file")), 2_000_000));
  t.ok(ofFiles < 700_000, `${ofFiles} of ${100 * 60_000}`);
});

t.test("media with a duration count more the longer they are", async (t) => {
  const short = estimateRequestTokens(talk(media("file", "A".repeat(1000))), "A".repeat(1000));
  const long = estimateRequestTokens(talk(media("file", "A".repeat(1_300_000))), "A".repeat(1_300_000));
  t.equal(short, 3200);
  t.equal(long, 32_000);
});

t.test("media alone count without the text beside them, and a text document counts as none", async (t) => {
  const result: Part = { kind: "tool_result", callId: "c", parts: [media("image", "AAAA")], at: "m" };
  const plain: Part = { kind: "media", media: "file", source: { text: "words ".repeat(1000) }, at: "m" };
  t.equal(
    estimateMediaTokens(talk({ kind: "text", text: "words", at: "m" }, media("image", "AAAA"), result, plain)),
    3200,
  );
  t.equal(estimateMediaTokens(talk(media("file", "A".repeat(260_001)))), 9600);
});
