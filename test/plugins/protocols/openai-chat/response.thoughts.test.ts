import t from "tap";
import openaiChat from "../../../../plugins/protocols/openai-chat/index.ts";
import type { Translation } from "../../../../src/translation/codec.ts";
import type { Event } from "../../../../src/translation/events.ts";
import { chunk, frameOf, only, streamed } from "./fixture.ts";

const chat = openaiChat.translation as Translation;
const read = (...deltas: object[]): Event[] =>
  streamed(chat, [...deltas.map((delta) => chunk(delta)), chunk({}, "stop")].map(frameOf));
const unsaid = (...deltas: object[]) => only(read(...deltas), "unsaid").map(({ path }) => path);

t.test("entries of any type and index are read, also of none", async (t) => {
  const odd = { toString: 1, valueOf: 1 };
  for (const type of ["constructor", "__proto__", "toString", odd, null, 7, undefined])
    for (const index of [0, odd, null, undefined]) {
      const events = read({ reasoning_details: [{ type, index, text: "so" }] });
      t.match(only(events, "text"), [{ text: "so" }], JSON.stringify({ type, index }));
      t.match(only(events, "open"), [{ kind: "reasoning", summary: undefined, redacted: undefined }]);
    }
});

t.test("an entry says its summary where its text is empty", async (t) => {
  const events = read({ reasoning_details: [{ type: "reasoning.summary", index: 0, text: "", summary: "Looked." }] });
  t.match(only(events, "text"), [{ text: "Looked." }]);
});

t.test("entries that are none are named", async (t) => {
  t.same(unsaid({ reasoning_details: [null, 7, "so"] }), ["reasoning_details"]);
});

t.test("what a message carries besides a signature is named", async (t) => {
  t.same(unsaid({ content: "a", extra_content: { google: { thought: true } } }), ["extra_content"]);
  t.same(unsaid({ content: "a", extra_content: { google: { thought: true } }, thought_signature: null }), [
    "extra_content",
  ]);
  t.same(unsaid({ content: "a", extra_content: { google: { thought: true, thought_signature: "sig" } } }), []);
  t.same(unsaid({ content: "a", thought_signature: "sig" }), []);
});
