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

/** The first bytes of a WAV file. */
function wav({ format = 1, channels = 1, rate = 16_000, bits = 16 }): string {
  const head = Buffer.alloc(24);
  head.writeUInt32LE(16, 0);
  head.writeUInt16LE(format, 4);
  head.writeUInt16LE(channels, 6);
  head.writeUInt32LE(rate, 8);
  head.writeUInt16LE(bits, 18);
  return `RIFF\xff\xff\xff\x7fWAVEfmt ${head.toString("latin1")}`;
}

t.test("a recording is reserved at the lowest bit rate, and uncompressed audio by its duration", async (t) => {
  const { likely, maximum } = tokensOfContent("audio", starting("ID3", 480_000));
  t.ok(likely < 2500 && maximum > 24_000 && maximum < 24_100, `${likely}, ${maximum}`);
  t.equal(tokensOfContent("video", starting("\0\0\0\x18ftypmp42", 100_000_000)).maximum, 1_000_000);
  // A minute of each.
  for (const [shape, bytes] of [
    [{}, 60 * 32_000],
    [{ channels: 2, rate: 44_100 }, 60 * 176_400],
    [{ format: 3, bits: 32 }, 60 * 64_000],
  ] as const) {
    const { likely, maximum } = tokensOfContent("audio", starting(wav(shape), bytes));
    t.ok(maximum >= Math.max(likely, 1920), JSON.stringify({ shape, likely, maximum }));
    t.ok(maximum === likely || maximum < 1930, JSON.stringify({ shape, likely, maximum }));
  }
  for (const shape of [{ format: 0x31 }, { rate: 0 }, { bits: 0 }])
    t.ok(tokensOfContent("audio", starting(wav(shape), 200_000)).maximum >= 10_000, JSON.stringify(shape));
  t.equal(tokensOfContent("audio", starting(wav({ rate: 1 }), 200_000)).maximum, 1_000_000);
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
