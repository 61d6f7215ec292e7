import { crc32, inflateSync } from "node:zlib";
import t, { type Test } from "tap";
import { png } from "../../../../plugins/protocols/openai-images/png.ts";

/** Name and content of each chunk, checksums compared. */
function chunksOf(t: Test, bytes: Buffer): [string, Buffer][] {
  const chunks: [string, Buffer][] = [];
  for (let at = 8; at < bytes.length; ) {
    const end = at + 8 + bytes.readUInt32BE(at);
    t.equal(bytes.readUInt32BE(end), crc32(bytes.subarray(at + 4, end)));
    chunks.push([bytes.toString("latin1", at + 4, at + 8), bytes.subarray(at + 8, end)]);
    at = end + 4;
  }
  return chunks;
}

t.test("it is a whole PNG of the wished size", async (t) => {
  const bytes = png(16, [200, 100, 0]);
  t.equal(bytes.toString("latin1", 0, 8), "\x89PNG\r\n\x1a\n");
  const chunks = chunksOf(t, bytes);
  t.same(
    chunks.map(([name]) => name),
    ["IHDR", "IDAT", "IEND"],
  );
  const [header, pixels] = chunks.map(([, content]) => content);
  t.same([header?.readUInt32BE(0), header?.readUInt32BE(4), header?.[8], header?.[9]], [16, 16, 8, 2]);
  t.equal(inflateSync(pixels ?? "").length, 16 * (1 + 3 * 16));
});

t.test("it begins with its colour", async (t) => {
  const pixels = chunksOf(t, png(2, [200, 100, 0]))[1]?.[1];
  t.same([...inflateSync(pixels ?? "").subarray(0, 4)], [0, 200, 100, 0]);
});
