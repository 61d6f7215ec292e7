import t from "tap";
import type { Media } from "../../src/translation/conversation.ts";
import { textOfFile } from "../../src/translation/file-text.ts";

const file = (bytes: Buffer | string, mime?: string, more: Partial<Media> = {}): Media => ({
  ...{ kind: "media", at: "x", media: "file", source: { base64: Buffer.from(bytes).toString("base64") } },
  ...(mime === undefined ? {} : { mime }),
  ...more,
});
const latin = Buffer.from("t\xe4xt", "latin1");

t.test("a text file is read in the character set that its type names, else in UTF-8", async (t) => {
  for (const [part, text] of [
    [file("täxt", "text/plain"), "täxt"],
    [file("# täxt", "text/markdown; charset=UTF-8"), "# täxt"],
    [file(latin, "text/plain; charset=iso-8859-1"), "täxt"],
    [file(latin, 'text/csv;header=present; Charset="windows-1252"'), "täxt"],
    [file(Buffer.from("täxt", "utf16le"), "text/plain; charset=utf-16le"), "täxt"],
    [file("", "text/plain"), ""],
    [file("", undefined, { source: { text: "words" } }), "words"],
  ] as const)
    t.equal(textOfFile(part), text, `${part.mime}`);
});

t.test("what is no text, or not in that character set, has none", async (t) => {
  for (const part of [
    file(latin, "text/plain"),
    file(latin, "text/plain; charset=utf-8"),
    file("x", "text/plain; charset=unheard-of"),
    file("x", "application/pdf"),
    file("x"),
    file("x", "text/plain", { media: "image" }),
    file("x", "text/plain", { source: { url: "https://a/b.txt" } }),
  ])
    t.equal(textOfFile(part), undefined, `${part.mime}`);
});
