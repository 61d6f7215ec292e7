import { crc32, inflateSync } from "node:zlib";
import t from "tap";
import { png } from "../../src/translation/png.ts";

t.test("an image has the points that it was given, in chunks with their checksums", async (t) => {
  const bytes = png(2, (x, y) => [x * 255, y * 99.6, 7]);
  t.equal(bytes.toString("hex", 0, 8), "89504e470d0a1a0a");
  const chunks = new Map<string, Buffer>();
  for (let at = 8; at < bytes.length; at += bytes.readUInt32BE(at) + 12) {
    const end = at + 8 + bytes.readUInt32BE(at);
    t.equal(crc32(bytes.subarray(at + 4, end)), bytes.readUInt32BE(end));
    chunks.set(bytes.toString("latin1", at + 4, at + 8), bytes.subarray(at + 8, end));
  }
  t.same([...chunks.keys()], ["IHDR", "IDAT", "IEND"]);
  t.same([...(chunks.get("IHDR") as Buffer)], [0, 0, 0, 2, 0, 0, 0, 2, 8, 2, 0, 0, 0]);
  t.same([...inflateSync(chunks.get("IDAT") as Buffer)], [...[0, 0, 0, 7, 255, 0, 7], ...[0, 0, 100, 7, 255, 100, 7]]);
});
