import t from "tap";
import type { Media, Part, Turn } from "../../../../src/translation/conversation.ts";
import { type JsonObject } from "../../../../src/wire/values.ts";
import { plain, written } from "./request.asking.ts";

const write = (role: Turn["role"], ...parts: Part[]) => {
  const { body, losses } = written(plain({ turns: [{ role, parts, at: "m" }] }));
  const [message] = body["input"] as JsonObject[];
  return { content: message?.["content"] as JsonObject[], dropped: losses.dropped };
};
const media = (media: Media["media"], source: Media["source"], more: Partial<Media> = {}): Media => ({
  kind: "media",
  media,
  source,
  at: media,
  ...more,
});

t.test("pictures by all their sources", async (t) => {
  const { content, dropped } = write(
    "user",
    media("image", { base64: "iVBO" }, { mime: "image/png", detail: "high" }),
    media("image", { url: "https://a.example/b" }, { detail: "ultra" }),
    media("image", { url: "data:image/gif;base64,R0lG" }),
    media("image", { id: "file-1", protocol: "openai-chat" }),
  );
  t.same(content, [
    { type: "input_image", detail: "high", image_url: "data:image/png;base64,iVBO" },
    { type: "input_image", image_url: "https://a.example/b" },
    { type: "input_image", image_url: "data:image/gif;base64,R0lG" },
    { type: "input_image", file_id: "file-1" },
  ]);
  t.same(dropped, ["image"]);
});

t.test("files have a name beside their bytes", async (t) => {
  const { content } = write(
    "user",
    media("file", { base64: "JVBE" }, { mime: "application/pdf" }),
    media("file", { base64: "JVBE" }, { mime: "application/pdf", filename: "a.pdf" }),
    media("file", { text: "Süß" }),
    media("file", { url: "https://a.example/c.pdf" }),
    media("file", { base64: "AAAA" }),
  );
  t.same(content, [
    { type: "input_file", filename: "file.pdf", file_data: "data:application/pdf;base64,JVBE" },
    { type: "input_file", filename: "a.pdf", file_data: "data:application/pdf;base64,JVBE" },
    { type: "input_file", filename: "file.txt", file_data: "data:text/plain;base64,U8O8w58=" },
    { type: "input_file", file_url: "https://a.example/c.pdf" },
    { type: "input_file", filename: "file.bin", file_data: "data:application/octet-stream;base64,AAAA" },
  ]);
});

t.test("audio is wav or mp3", async (t) => {
  const { content } = write("user", media("audio", { base64: "AAAA" }, { mime: "audio/mpeg" }));
  t.same(content, [{ type: "input_audio", input_audio: { data: "AAAA", format: "mp3" } }]);
});

t.test("what the vendor cannot read is refused with its place", async (t) => {
  const refused: [Media, string][] = [
    [media("video", { base64: "AAAA" }), "video"],
    [media("audio", { base64: "AAAA" }, { mime: "audio/flac" }), "audio"],
    [media("audio", { url: "https://a.example/a.wav" }, { mime: "audio/wav" }), "audio"],
    [media("image", { base64: "iVBO" }), "image"],
    [media("image", { text: "x" }), "image"],
    [media("image", { url: "gs://a/b" }), "image"],
    [media("image", { url: "file:///a" }), "image"],
    [media("image", { url: "//a.example/b" }), "image"],
    [media("file", { url: "ftp://a.example/b.pdf" }), "file"],
    [media("file", { id: "files/1", protocol: "gemini" }), "file"],
  ];
  for (const [part, param] of refused)
    t.throws(() => write("user", part), { code: "not_translatable", param }, JSON.stringify(part));
});

t.test("an assistant speaks in texts and refusals; pictures of its own are declared as lost", async (t) => {
  const { content, dropped } = write(
    "assistant",
    { kind: "text", text: "A", at: "a" },
    { kind: "refusal", text: "No.", at: "r" },
    media("image", { url: "https://a.example/b" }),
  );
  t.same(content, [
    { type: "output_text", text: "A" },
    { type: "refusal", refusal: "No." },
  ]);
  t.same(dropped, ["image"]);
});

t.test("citations are written by their URL, and back the whole text where they tell no place", async (t) => {
  const citations = [
    { url: "https://a.example", title: "A", start: 0, end: 2 },
    { url: "https://b.example" },
    { quote: "q" },
  ];
  const { content, dropped } = write("assistant", { kind: "text", text: "text", citations, at: "a" });
  t.same(content, [
    {
      type: "output_text",
      text: "text",
      annotations: [
        { type: "url_citation", url: "https://a.example", title: "A", start_index: 0, end_index: 2 },
        { type: "url_citation", url: "https://b.example", title: "https://b.example", start_index: 0, end_index: 4 },
      ],
    },
  ]);
  t.same(dropped, ["a"]);
});

t.test(
  "a mark for the cache lasts at least as long as was asked, and has no place on an assistant's text",
  async (t) => {
    const marked = (["5m", "30m", "1h", "12h", undefined] as const).map((ttl): Part => {
      return { kind: "text", text: "x", at: "x", cache: ttl ? { ttl } : {} };
    });
    t.same(
      write("user", ...marked).content.map((part) => part["prompt_cache_breakpoint"]),
      [
        { mode: "explicit" },
        { mode: "explicit", ttl: "30m" },
        { mode: "explicit", ttl: "12h" },
        { mode: "explicit", ttl: "12h" },
        { mode: "explicit" },
      ],
    );
    t.same(write("assistant", { kind: "text", text: "x", at: "x", cache: {} }).dropped, ["x"]);
  },
);
