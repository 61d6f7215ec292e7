import { randomBytes } from "node:crypto";
import t from "tap";
import { Body } from "../../src/core/body.ts";
import type { Protocol } from "../../src/core/protocol.ts";
import { loadProtocols } from "../../src/loader/discover.ts";
import { Envelopes } from "../../src/translation/envelope.ts";
import { HEAD_LENGTH } from "../../src/translation/media-content.ts";
import { tokensOfRequest } from "../../src/translation/request-tokens.ts";
import { estimateTextTokens } from "../../src/translation/text-tokens.ts";
import { HeaderList } from "../../src/wire/headers.ts";
import { SAY } from "../support/tiny.ts";

const envelopes = new Envelopes("a secret of the tests");
const protocol = (await loadProtocols()).find(({ name }) => name === "openai-chat") as Protocol;
const headers = new HeaderList();
const query = { get: () => null };

/** Returns the tokens of parts in a user's turn, sent in pieces of so many bytes. */
function tokensOf(parts: object[], size = 65_536) {
  const bytes = Buffer.from(JSON.stringify({ model: "m", messages: [{ role: "user", content: parts }] }));
  const pieces: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += size) pieces.push(bytes.subarray(at, at + size));
  const request = { protocol, operation: SAY, headers, query, caller: "" };
  return tokensOfRequest(request, new Body(pieces, "json"), envelopes);
}

const png = (bytes: number): string =>
  Buffer.concat([Buffer.from("\x89PNG\r\n\x1a\n", "latin1"), randomBytes(bytes)]).toString("base64");
const image = (base64: string) => ({ type: "image_url", image_url: { url: `data:image/png;base64,${base64}` } });
const TEXT = { type: "text", text: "What is it? ".repeat(600) };
const TEXT_TOKENS = estimateTextTokens(TEXT.text);

t.test("images count as images beside texts, wherever pieces begin", async (t) => {
  for (const size of [5000, 65_536, 1_000_000]) {
    const { likely, maximum } = tokensOf([TEXT, image(png(30_000)), TEXT, image(png(200_000)), TEXT], size);
    t.equal(maximum, likely);
    t.ok(likely > 3200 + 3 * TEXT_TOKENS && likely < 3400 + 3 * TEXT_TOKENS, `${likely} in ${size}`);
  }
});

t.test("a long text in a file counts as a text, and a document up to its bytes", async (t) => {
  const file = (type: string, bytes: Buffer) =>
    tokensOf([{ type: "file", file: { file_data: `data:${type};base64,${bytes.toString("base64")}` } }]);
  const text = file("text/csv", Buffer.from("Words, and more words\n".repeat(10_000)));
  t.ok(text.maximum > 220_000 / 3 && text.maximum < 240_000 / 3, `${text.maximum}`);
  t.equal(text.likely, text.maximum);
  const document = file("application/pdf", Buffer.concat([Buffer.from("%PDF-1.7\n\0"), randomBytes(200_000)]));
  t.ok(document.maximum >= 200_000 && document.maximum < 201_000, `${document.maximum}`);
  t.ok(document.likely < 10_000, `${document.likely}`);
});

t.test("parsing does not depend on the length of the images", async (t) => {
  const { parse } = JSON;
  let parsed = 0;
  JSON.parse = (text, reviver) => {
    parsed = Math.max(parsed, text.length);
    return parse(text, reviver);
  };
  try {
    tokensOf([image(png(1_000_000)), image(png(2_000_000))]);
  } finally {
    JSON.parse = parse;
  }
  t.ok(parsed > 0 && parsed < 2000, `${parsed}`);
});

t.test("a quote that belongs to a string does not end its base64", async (t) => {
  const { maximum } = tokensOf([image(`${png(90_000)}"`)]);
  t.ok(maximum < 2000, `${maximum}`);
});

t.test("the beginning of a text, sent once more as an image, does not make the text an image", async (t) => {
  const base64 = png(90_000);
  const { maximum } = tokensOf([
    { type: "text", text: "a", image_url: { url: `data:image/png;base64,${base64}` } },
    image(base64.slice(0, HEAD_LENGTH)),
  ]);
  t.ok(maximum > 1600 + base64.length / 3, `${maximum}`);
});
