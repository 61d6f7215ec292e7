import t from "tap";
import { mediaOf } from "../../../../plugins/protocols/gemini/media.ts";

t.test("a type says what sort of media it is of, in either case", async (t) => {
  const types = ["image/png", "Audio/L16;rate=24000", "video/mp4", "application/pdf", "imagery/x", "", undefined];
  t.strictSame(types.map(mediaOf), ["image", "audio", "video", "file", "file", "file", "file"]);
});
