import { randomBytes } from "node:crypto";
import t from "tap";
import { contentOf, tokensOfContent, tokensOfLong } from "../../src/translation/media-content.ts";
import { estimateTextTokens } from "../../src/translation/text-tokens.ts";

const of = (bytes: Buffer | string) => contentOf(Buffer.from(bytes).toString("base64"));
const starting = (start: string, bytes = 300_000) =>
  of(Buffer.concat([Buffer.from(start, "latin1"), Buffer.alloc(16), randomBytes(bytes)]));
const DIGITS = "0123456789".repeat(5000);
const WORDS = "Was ist größer als ein Haus? ".repeat(2000);

t.test("a text in a file counts as the text that it is", async (t) => {
  for (const text of [DIGITS, WORDS, "{}\n", `\ufeff${WORDS}`]) {
    const tokens = estimateTextTokens(text);
    t.same(tokensOfContent("file", of(text)), { likely: tokens, maximum: tokens });
  }
});

t.test("a text that is declared to be something else is reserved as a text", async (t) => {
  for (const media of ["image", "audio", "video"] as const) {
    const { likely, maximum } = tokensOfContent(media, of(DIGITS));
    t.equal(maximum, estimateTextTokens(DIGITS), media);
    t.ok(likely < 3000, media);
  }
  const hidden = tokensOfContent("image", of(`\0${DIGITS}`));
  t.ok(hidden.maximum > DIGITS.length / 3, "and also one that begins like no image");
  t.equal(tokensOfContent("image", of("a")).maximum, 1600, "but at least as an image");
});

t.test("images of the usual formats count as images", async (t) => {
  const starts = [
    "\x89PNG\r\n\x1a\n",
    "\xff\xd8\xff\xe0",
    "GIF89a",
    "GIF87a",
    "II*\0",
    "MM\0*",
    "RIFF\0\0\0\0WEBPVP8 ",
    "\0\0\0\x1cftypheic",
    "\0\0\0\x20ftypavif",
  ];
  for (const start of starts)
    t.same(tokensOfContent("image", starting(start)), { likely: 1600, maximum: 1600 }, JSON.stringify(start));
});

t.test("a document is reserved by its bytes, and estimated by its usual pages", async (t) => {
  t.same(tokensOfContent("file", starting("%PDF-1.7\n", 1000)), { likely: 3200, maximum: 4600 });
  const scan = tokensOfContent("file", starting("%PDF-1.7\n", 300_000));
  t.equal(scan.likely, 4 * 3200);
  t.ok(scan.maximum >= 300_000 && scan.maximum < 301_000);
  t.equal(tokensOfContent("file", starting("PK\x03\x04", 2_000_000)).maximum, 1_000_000);
  t.ok(tokensOfContent("file", of(`%PDF-1.7\n${WORDS}`)).maximum > WORDS.length, "readable ones too");
});

t.test("media of which only a name is known count once", async (t) => {
  t.same(tokensOfContent("image", contentOf("")), { likely: 1600, maximum: 1600 });
});

t.test("long media are estimated without reading them", async (t) => {
  const read = () => t.fail("read") as unknown as string;
  t.equal(tokensOfLong("file", { ...of(DIGITS), read }), Math.ceil(DIGITS.length / 3));
  t.equal(tokensOfLong("file", { ...starting("%PDF-1.7\n", 300_000), read }), 4 * 3200);
  t.equal(tokensOfLong("image", { ...of(DIGITS), read }), 1600);
});
