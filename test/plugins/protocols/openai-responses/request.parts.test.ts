import t from "tap";
import { read, says } from "./request.asking.ts";

const content = (...parts: object[]) => read({ model: "any", input: [{ role: "user", content: parts }] });
const at = (n: number) => `input.0.content.${n}`;

t.test("texts and refusals", async (t) => {
  const spoken = [
    { type: "output_text", text: "A", annotations: [], logprobs: [] },
    { type: "refusal", refusal: "No." },
  ];
  const conversation = read({
    model: "any",
    input: [
      { role: "assistant", content: spoken },
      { role: "user", content: [] },
    ],
  });
  t.same(conversation.turns[0]?.parts, [
    { kind: "text", text: "A", at: at(0) },
    { kind: "refusal", text: "No.", at: at(1) },
  ]);
  t.same(says(conversation), []);
});

t.test("pictures come as bytes, by URL, or by an id", async (t) => {
  const conversation = content(
    { type: "input_image", image_url: "data:image/jpeg;base64,/9j/", detail: "auto" },
    { type: "input_image", image_url: "https://a.example/b.png", detail: "low" },
    { type: "input_image", file_id: "file-1", image_url: null },
  );
  const image = { kind: "media", media: "image" };
  t.same(conversation.turns[0]?.parts, [
    { ...image, mime: "image/jpeg", source: { base64: "/9j/" }, detail: "auto", at: at(0) },
    { ...image, source: { url: "https://a.example/b.png" }, detail: "low", at: at(1) },
    { ...image, source: { id: "file-1", protocol: "openai-responses" }, at: at(2) },
  ]);
  t.same(says(conversation), [
    `image_base64 ${at(0)}.image_url`,
    `image_url ${at(1)}.image_url`,
    `media_detail ${at(1)}.detail`,
    `file_id ${at(2)}.file_id`,
  ]);
});

t.test("files come with a media type or without, by URL, or by an id", async (t) => {
  const conversation = content(
    { type: "input_file", filename: "a.pdf", file_data: "data:application/pdf;base64,JVBE" },
    { type: "input_file", filename: "b.bin", file_data: "JVBE" },
    { type: "input_file", file_url: "https://a.example/c.pdf" },
    { type: "input_file", file_id: "file-2" },
  );
  const file = { kind: "media", media: "file" };
  t.same(conversation.turns[0]?.parts, [
    { ...file, mime: "application/pdf", source: { base64: "JVBE" }, filename: "a.pdf", at: at(0) },
    { ...file, source: { base64: "JVBE" }, filename: "b.bin", at: at(1) },
    { ...file, source: { url: "https://a.example/c.pdf" }, at: at(2) },
    { ...file, source: { id: "file-2", protocol: "openai-responses" }, at: at(3) },
  ]);
});

t.test("a data: URL that is not in base64 is refused", async (t) => {
  t.throws(() => content({ type: "input_image", image_url: "data:image/svg+xml,<svg/>" }), {
    code: "invalid_field",
    param: `${at(0)}.image_url`,
  });
});

t.test("audio has a media type by its format", async (t) => {
  const audio = (format: string) => ({ type: "input_audio", input_audio: { data: "AAAA", format } });
  const { turns } = content(audio("wav"), audio("mp3"), audio("flac"));
  t.same(
    turns[0]?.parts.map((part) => part.kind === "media" && part.mime),
    ["audio/wav", "audio/mpeg", "audio/flac"],
  );
});

t.test("a mark for the cache keeps its time", async (t) => {
  const text = (breakpoint: object) => ({ type: "input_text", text: "x", prompt_cache_breakpoint: breakpoint });
  const conversation = content(text({ mode: "explicit" }), text({ mode: "explicit", ttl: "12h" }));
  t.same(
    conversation.turns[0]?.parts.map((part) => part.cache),
    [{}, { ttl: "12h" }],
  );
  t.same(says(conversation), [
    `cache_mark ${at(0)}.prompt_cache_breakpoint`,
    `cache_mark ${at(1)}.prompt_cache_breakpoint`,
  ]);
});

t.test("citations with a URL are kept, and all are said", async (t) => {
  const annotations = [
    { type: "url_citation", url: "https://a.example", title: "A", start_index: 1, end_index: 3 },
    { type: "file_citation", file_id: "file-1", filename: "a.txt", index: 1 },
  ];
  const input = [
    { role: "assistant", content: [{ type: "output_text", text: "text", annotations }] },
    { role: "user", content: "?" },
  ];
  const conversation = read({ model: "any", input });
  t.same(conversation.turns[0]?.parts, [
    { kind: "text", text: "text", at: at(0), citations: [{ url: "https://a.example", title: "A", start: 1, end: 3 }] },
  ]);
  t.same(says(conversation), [`citations ${at(0)}.annotations`]);
});

t.test("a part nobody knows stays as it is", async (t) => {
  const part = { type: "input_hologram", data: "x" };
  const conversation = content(part);
  t.match(conversation.turns[0]?.parts, [{ kind: "foreign", name: "input_hologram", json: part }]);
  t.same(says(conversation), [`foreign_block ${at(0)}`]);
});
