import { randomBytes } from "node:crypto";
import t from "tap";
import { Body } from "../../src/core/body.ts";
import type { Protocol } from "../../src/core/protocol.ts";
import { loadProtocols } from "../../src/loader/discover.ts";
import { Envelopes } from "../../src/translation/envelope.ts";
import { HEAD_LENGTH } from "../../src/translation/media-content.ts";
import { tokensInRequest } from "../../src/translation/request-tokens.ts";
import { runAtOnce } from "../../src/translation/steps.ts";
import { estimateTextTokens } from "../../src/translation/text-tokens.ts";
import { HeaderList } from "../../src/wire/headers.ts";
import { charactersRead } from "../support/linear-work.ts";
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
  return runAtOnce(tokensInRequest(request, new Body(pieces, "json"), envelopes));
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

t.test(
  "of many images that begin like none, and many texts between images, only small parts are gone through",
  async (t) => {
    const unknown = Buffer.alloc(1500).toString("base64");
    const images = Array.from({ length: 4000 }, () => image(unknown));
    const gone = charactersRead(() => tokensOf(images));
    t.ok(gone < 1_500_000, `${gone} of ${4000 * 1500}`);
    const texts = Array.from({ length: 400 }, () => [{ type: "text", text: "Words, ".repeat(3000) }, image(png(2000))]);
    const read = charactersRead(() => tokensOf(texts.flat()));
    t.ok(read < 2_000_000, `${read} of ${400 * 21_000}`);
  },
);

t.test("samples of many files have about as many tokens as all of them", async (t) => {
  for (const text of ["Words, and more words\n", "3.14159,2.71828\n", "a1b2c3d4"]) {
    const bytes = Buffer.from(text.repeat(3000 / text.length));
    const part = { type: "file", file: { file_data: `data:text/csv;base64,${bytes.toString("base64")}` } };
    const ratio = tokensOf(Array(2000).fill(part)).maximum / 20 / tokensOf(Array(100).fill(part)).maximum;
    t.ok(ratio > 0.95 && ratio < 1.05, `${ratio}: ${text}`);
  }
});

t.test("escaped base64 counts as media and as a text, also where only samples of it are read", async (t) => {
  const escaped = (base64: string): Buffer =>
    Buffer.from(
      JSON.stringify({ model: "m", messages: [{ role: "user", content: [image(base64)] }] }).replaceAll("/", "\\/"),
    );
  const tokens = (base64: string) => {
    const request = { protocol, operation: SAY, headers, query, caller: "" };
    return runAtOnce(tokensInRequest(request, new Body([escaped(base64)], "json"), envelopes));
  };
  t.ok(tokens(png(900_000)).maximum < 2000);
  const noImage = tokens(Buffer.from("Words? Words! ".repeat(60_000)).toString("base64"));
  t.ok(noImage.likely < 2000 && noImage.maximum >= 280_000, JSON.stringify(noImage));
});

t.test("many images are read in many steps", async (t) => {
  const bytes = JSON.stringify({
    model: "m",
    messages: [{ role: "user", content: Array(4000).fill(image(png(1500))) }],
  });
  const request = { protocol, operation: SAY, headers, query, caller: "" };
  const steps = tokensInRequest(request, new Body([Buffer.from(bytes)], "json"), envelopes);
  let count = 1;
  while (!steps.next().done) count++;
  t.ok(count > (3 * 4000) / 512, `${count}`);
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
