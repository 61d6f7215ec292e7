import t from "tap";
import { imageType } from "../../src/translation/image-type.ts";

t.test("an image's type is told by its first bytes", async (t) => {
  const typeOf = (head: string) => imageType(Buffer.from(`${head}more bytes`, "latin1").toString("base64"));
  t.equal(typeOf("\x89PNG\r\n\x1a\n"), "image/png");
  t.equal(typeOf("\xff\xd8\xff\xe0"), "image/jpeg");
  t.equal(typeOf("GIF89a"), "image/gif");
  t.equal(typeOf("GIF87a"), "image/gif");
  t.equal(typeOf("RIFF\n\0\0\0WEBP"), "image/webp");
  for (const other of ["RIFF\n\0\0\0WAVE", "BM", "\x89PNG", "", "%PDF-1.7"]) t.equal(typeOf(other), undefined, other);
});
