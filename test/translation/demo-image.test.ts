import { crc32, inflateSync } from "node:zlib";
import t from "tap";
import { demoImageEvents, demoPng } from "../../src/translation/demo-image.ts";

t.test("it is a complete PNG of 16 by 16 points", async (t) => {
  const bytes = demoPng();
  t.equal(bytes.toString("hex", 0, 8), "89504e470d0a1a0a");
  const chunks = new Map<string, Buffer>();
  for (let at = 8; at < bytes.length; at += bytes.readUInt32BE(at) + 12) {
    const end = at + 8 + bytes.readUInt32BE(at);
    t.equal(crc32(bytes.subarray(at + 4, end)), bytes.readUInt32BE(end));
    chunks.set(bytes.toString("latin1", at + 4, at + 8), bytes.subarray(at + 8, end));
  }
  t.same([...chunks.keys()], ["IHDR", "IDAT", "IEND"]);
  t.same([chunks.get("IHDR")?.readUInt32BE(0), chunks.get("IHDR")?.readUInt32BE(4)], [16, 16]);
  t.equal(inflateSync(chunks.get("IDAT") as Buffer).length, 16 * (1 + 16 * 3));
});

t.test("it is one block of an answer", async (t) => {
  const base64 = demoPng().toString("base64");
  t.match(demoImageEvents(3), [
    { type: "open", block: 3, media: "image", mime: "image/png" },
    { type: "media", block: 3, base64 },
    { type: "close", block: 3 },
  ]);
});
