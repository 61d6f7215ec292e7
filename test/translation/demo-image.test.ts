import t from "tap";
import { demoImageEvents, demoPng } from "../../src/translation/demo-image.ts";

t.test("it is a complete PNG of 16 by 16 pixels", async (t) => {
  const bytes = demoPng();
  t.equal(bytes.toString("latin1", 1, 4), "PNG");
  t.same([bytes.readUInt32BE(16), bytes.readUInt32BE(20)], [16, 16]);
});

t.test("it is one block of an answer", async (t) => {
  const base64 = demoPng().toString("base64");
  t.match(demoImageEvents(3), [
    { type: "open", block: 3, media: "image", mime: "image/png" },
    { type: "media", block: 3, base64 },
    { type: "close", block: 3 },
  ]);
});
