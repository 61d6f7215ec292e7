import t from "tap";
import openaiChat from "../../../../plugins/protocols/openai-chat/index.ts";
import type { Translation } from "../../../../src/translation/codec.ts";
import type { Event } from "../../../../src/translation/events.ts";
import { chunk, exchanges, frameOf, only, source, streamed } from "./fixture.ts";

const chat = openaiChat.translation as Translation;
const read = (...frames: object[]): Event[] => streamed(chat, [...frames, chunk({}, "stop")].map(frameOf));
const unsaid = (...frames: object[]) => only(read(...frames), "unsaid").map(({ path }) => path);

t.test("a member of another form than it is read in is named", async (t) => {
  const texts = ["refusal", "reasoning", "reasoning_content", "thought_signature"];
  const lists = ["tool_calls", "annotations", "images", "reasoning_details"];
  const objects = ["function_call", "audio", "extra_content"];
  for (const name of [...texts, ...objects]) t.same(unsaid(chunk({ [name]: ["a"] })), [name], name);
  for (const name of [...lists, ...objects]) t.same(unsaid(chunk({ [name]: "a" })), [name], name);
  for (const name of [...texts, ...lists, "content"]) t.same(unsaid(chunk({ [name]: { a: 1 } })), [name], name);
  for (const name of [...texts, ...lists, ...objects, "content"])
    for (const nothing of [null, "", false]) t.same(unsaid(chunk({ [name]: nothing })), [], name);
});

t.test("likelihoods that go with no text are named", async (t) => {
  const tokens = [{ token: "a", logprob: -1, top_logprobs: [] }];
  const likely = (delta: object, logprobs: object) => ({
    ...chunk({}),
    choices: [{ index: 0, delta, logprobs, finish_reason: null }],
  });
  t.same(unsaid(likely({ content: "a" }, { content: tokens, refusal: null })), []);
  t.same(unsaid(likely({ content: "" }, { content: [], refusal: null })), []);
  t.same(unsaid(likely({ content: "", tool_calls: [] }, { content: tokens })), ["logprobs"]);
  t.same(unsaid(likely({ reasoning_content: "a" }, { content: tokens })), ["logprobs"]);
  // As text completions have them.
  t.same(unsaid(likely({ content: "a" }, { tokens: ["a"], token_logprobs: [-1] })), ["logprobs"]);
});

t.test("media are told whole: each block has one event", async (t) => {
  const images = ["a", "b"].map((name) => ({ image_url: { url: `https://a.example/${name}.png` } }));
  const events = [
    ...read(chunk({ images }), chunk({ images: images.slice(1), audio: { data: "AAAA" } })),
    ...exchanges("openai-chat")
      .filter(({ kinds, status }) => status < 300 && !kinds.includes("stream"))
      .flatMap(({ body }) => {
        try {
          return chat.response.decode(body, source);
        } catch {
          return [];
        }
      }),
  ];
  const opened = events.filter((event) => event.type === "open" && event.kind === "media");
  t.ok(opened.length >= 4);
  t.equal(only(events, "media").length, opened.length);
});
