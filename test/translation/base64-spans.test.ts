import { randomBytes } from "node:crypto";
import t from "tap";
import { base64Spans, hasLongBase64 } from "../../src/translation/base64-spans.ts";

const data = (bytes: number): string => randomBytes(bytes).toString("base64");
/** Returns the kinds found in a request, and checks that everything but their base64 is left. */
function kinds(part: object, size = 65_536): string[] {
  const text = Buffer.from(JSON.stringify({ messages: [{ role: "user", content: ["Look at this.", part] }] }));
  const pieces = [];
  for (let at = 0; at < text.length; at += size) pieces.push(text.subarray(at, at + size));
  return base64Spans(pieces).map(({ kind, start, end }) => {
    const found = text.toString("latin1", start, end).replace(/^data:[^,]*,/, "");
    if (!/^[\w+/=-]+$/.test(found)) throw new Error(`not base64: ${found.slice(0, 60)}`);
    return text[start - 1] === 0x22 && text[end] === 0x22 ? kind : "part of a string";
  });
}

t.test("media are found in each protocol's members, wherever pieces begin", async (t) => {
  const parts = (base64: string): [string, object][] => [
    ["image", { type: "image_url", image_url: { url: `data:image/png;base64,${base64}` } }],
    ["image", { type: "input_image", image_url: `data:image/png;base64,${base64}` }],
    ["image", { type: "image", source: { type: "base64", media_type: "image/jpeg", data: base64 } }],
    ["image", { inlineData: { mimeType: "image/png", data: base64 } }],
    ["image", { inline_data: { data: base64, mime_type: "image/png" } }],
    ["video", { inlineData: { mimeType: "video/mp4", data: base64 } }],
    ["audio", { type: "input_audio", input_audio: { data: base64, format: "wav" } }],
    ["file", { type: "document", source: { type: "base64", media_type: "application/pdf", data: base64 } }],
    ["file", { type: "file", file: { filename: "a.pdf", file_data: `data:application/pdf;base64,${base64}` } }],
  ];
  for (const bytes of [1000, 50_000, 300_000])
    for (const [kind, part] of parts(data(bytes)))
      for (const size of [5000, 65_536, 1_000_000])
        t.strictSame(kinds(part, size), [kind], `${JSON.stringify(part).slice(0, 120)} of ${bytes} in ${size}`);
});

t.test("state that only its provider can read is found", async (t) => {
  const state = data(9000);
  t.strictSame(kinds({ type: "thinking", thinking: "Well.", signature: state }), ["opaque"]);
  t.strictSame(kinds({ type: "redacted_thinking", data: state }), ["opaque"]);
  t.strictSame(kinds({ type: "reasoning", encrypted_content: state }), ["opaque"]);
  t.strictSame(kinds({ text: "", thoughtSignature: state }), ["opaque"]);
});

t.test("base64 in a text, and a text that begins or ends like base64, are neither", async (t) => {
  const base64 = data(9000);
  t.strictSame(kinds({ type: "text", text: base64 }), []);
  t.strictSame(kinds({ type: "text", text: `The image: data:image/png;base64,${base64}` }), []);
  const source = { type: "base64", media_type: "image/png" };
  t.strictSame(kinds({ type: "image", source: { ...source, data: `${base64}${" and words".repeat(400)}` } }), []);
  t.strictSame(kinds({ type: "image", source: { ...source, data: "words and ".repeat(400) + base64 } }), []);
});

t.test("long base64 without escapes is found wherever it is, and numbers or words are not", async (t) => {
  const has = (text: string) => hasLongBase64([Buffer.from("x"), Buffer.from(JSON.stringify({ text }))]);
  t.equal(has(`The image: ${data(3000)}`), true);
  t.equal(has(data(20)), false);
  t.equal(has("words and ".repeat(400)), false);
  t.equal(has("\n12345".repeat(1000)), false, "an escape is not base64");
});
