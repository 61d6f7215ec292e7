import { brotliCompressSync, constants, deflateRawSync, deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import t from "tap";
import { type Coding, checkMediaType, createBodyDecoder, readCoding } from "../../src/downstream/coding.ts";

function decode(coding: Coding, chunks: readonly Buffer[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const pieces: Buffer[] = [];
    const made = createBodyDecoder(coding, {
      piece: (bytes) => pieces.push(bytes),
      end: () => resolve(Buffer.concat(pieces).toString()),
      error: reject,
    });
    for (const chunk of chunks) made.write(chunk);
    made.end();
  });
}

t.test("one layer of a known coding is accepted, in any case", async (t) => {
  for (const [header, coding] of [
    [undefined, undefined],
    ["", undefined],
    ["identity", undefined],
    [" GZIP ", "gzip"],
    ["x-gzip", "gzip"],
    ["deflate", "deflate"],
    ["br", "br"],
    ["zstd", "zstd"],
  ] as const)
    t.equal(readCoding(header), coding);
  for (const header of ["gzip, gzip", "gzip,identity", "compress", "x", "toString", "br;q=1"])
    t.throws(() => readCoding(header), { code: "unsupported_encoding", status: 415 }, header);
});

t.test("decodes each coding, chunk by chunk, deflate also without its zlib header", async (t) => {
  const text = '{"model":"é"}'.repeat(50);
  for (const [coding, bytes] of [
    ["gzip", gzipSync(text)],
    ["deflate", deflateSync(text)],
    ["deflate", deflateRawSync(text)],
    ["br", brotliCompressSync(text)],
    ["zstd", zstdCompressSync(text)],
  ] as const) {
    const chunks = Array.from(bytes, (_, i) => bytes.subarray(i, i + 1));
    t.equal(await decode(coding, [Buffer.alloc(0), ...chunks]), text, coding);
    await t.rejects(decode(coding, [bytes.subarray(0, -3)]), `${coding} that ends early`);
    await t.rejects(decode(coding, [Buffer.from("\x0bno such thing")]), `${coding} with invalid data`);
    await t.rejects(decode(coding, [bytes, Buffer.from("more")]), `${coding} with something behind it`);
  }
  t.equal(await decode("deflate", []), "");
});

t.test("refuses a zstd window that would be larger than a body needs", async (t) => {
  const params = { [constants.ZSTD_c_windowLog]: 25, [constants.ZSTD_c_contentSizeFlag]: 0 };
  const { createZstdCompress } = await import("node:zlib");
  const bytes = await new Promise<Buffer>((resolve) => {
    const pieces: Buffer[] = [];
    const stream = createZstdCompress({ params });
    stream.on("data", (piece: Buffer) => pieces.push(piece)).on("end", () => resolve(Buffer.concat(pieces)));
    stream.write("x");
    stream.end("y");
  });
  await t.rejects(decode("zstd", [bytes]));
});

t.test("accepts JSON by its content-type, and only as UTF-8", async (t) => {
  for (const header of [
    undefined,
    "",
    "application/json",
    "Application/JSON; Charset=UTF-8",
    'application/json; charset="utf-8"',
    "application/vnd.x.v1+json",
    "text/plain;charset=us-ascii",
    "application/json; odata=verbose",
  ])
    t.doesNotThrow(() => checkMediaType(header), String(header));
  for (const header of [
    "multipart/form-data; boundary=x",
    "application/x-www-form-urlencoded",
    "application/jsonp",
    "text/html",
    "application/json; charset=utf-16",
    "application/json; charset=latin1",
    "application/json, text/html",
  ])
    t.throws(() => checkMediaType(header), { code: "unsupported_media_type", status: 415 }, header);
});
