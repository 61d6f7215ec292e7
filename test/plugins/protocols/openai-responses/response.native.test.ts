import t from "tap";
import { decode, decoder } from "../../../../plugins/protocols/openai-responses/response.decode.ts";
import { encode, encoder } from "../../../../plugins/protocols/openai-responses/response.encode.ts";
import { isKept } from "../../../../plugins/protocols/openai-responses/response.native.ts";
import type { EncodedFrame } from "../../../../src/translation/codec.ts";
import type { Event } from "../../../../src/translation/events.ts";
import type { Frame } from "../../../../src/wire/frame.ts";
import { SseSplitter } from "../../../../src/wire/sse.ts";
import { type JsonObject } from "../../../../src/wire/values.ts";
import { eventsIn, type Recorded, recorded } from "../../../support/recorded.ts";
import { decoded, SOURCE, valuesOf, wishing, written } from "./answers.ts";

const native = { ...SOURCE, native: true };
const answers = recorded("openai-responses").filter(({ status }) => status === 200);
const streams = answers.filter(({ body }) => /^\s*(?:event|data|:)/.test(body));
const skip = answers.length === 0 && "the recordings are absent";
/** Two answers one after the other, and chunks of another protocol. */
const NO_ANSWER = /reasoning-encrypted-content\.1\.stream|azure-deepseek-reasoning/;

const parsed = (text: string | undefined): unknown => (text === "[DONE]" ? text : JSON.parse(text ?? ""));

/** The frames with data, as name and value. */
const plain = (frames: readonly Frame[]) =>
  frames.filter(({ text }) => text !== undefined).map(({ event, text }) => [event, parsed(text)]);

/** A body that comes in chunks, read and written again. */
function again(body: string, lengths: () => number): unknown {
  const splitter = new SseSplitter();
  const reader = decoder(native);
  const writer = encoder(wishing().context);
  const events: Event[] = [];
  const out: EncodedFrame[] = [];
  const bytes = Buffer.from(body);
  for (let at = 0; at < bytes.length; ) {
    const length = lengths();
    for (const frame of splitter.push(bytes.subarray(at, at + length))) reader.frame(frame, events);
    at += length;
  }
  reader.end(events);
  for (const event of events) if (event.type !== "error") writer.event(event, out);
  return out.map(({ name, data }) => [name, parsed(data)]);
}

const each = (list: readonly Recorded[]) => list.filter(({ id }) => !NO_ANSWER.test(id));

t.test("every recorded stream is written as it came, however it is cut", { skip }, async (t) => {
  let seed = 1;
  const some = () => {
    seed = (seed * 16807) % 2147483647;
    return 1 + (seed % 4096);
  };
  for (const { id, body } of each(streams)) {
    const expected = plain(eventsIn(body));
    t.same(again(body, body.length < 20_000 ? () => 1 : some), expected, id);
  }
});

t.test("every recorded whole response is written as it came", { skip }, async (t) => {
  for (const { id, body } of each(answers)) {
    if (streams.some((stream) => stream.id === id)) continue;
    const { output, status } = JSON.parse(body) as JsonObject;
    // Counted tokens are no answer, and what is still made in the background is none yet.
    if (!Array.isArray(output) || status === "queued") continue;
    t.same(JSON.parse(encode(decode(body, native), wishing().context)), JSON.parse(body), id);
  }
});

const item = (type: string, more: JsonObject): JsonObject => ({ id: `${type}-id`, type, ...more });
const message = item("message", {
  role: "assistant",
  status: "completed",
  content: [
    { type: "output_text", text: "vocabulary-text", annotations: [], logprobs: [] },
    { type: "refusal", refusal: "vocabulary-refusal" },
  ],
});
const call = item("function_call", { call_id: "vocabulary-id", name: "vocabulary-name", arguments: "vocabulary-args" });
const thought = item("reasoning", {
  summary: [{ type: "summary_text", text: "vocabulary-summary" }],
  content: [{ type: "reasoning_text", text: "vocabulary-thought" }],
  encrypted_content: "vocabulary-state",
});
const search = item("web_search_call", { action: { query: "vocabulary-query" } });
const response: JsonObject = {
  id: "vocabulary-response",
  model: "vocabulary-model",
  object: "response",
  created_at: 77,
  status: "completed",
  output: [thought, search, message, call],
  usage: { input_tokens: 73, output_tokens: 72, total_tokens: 145, input_tokens_details: { cached_tokens: 71 } },
  other: "native",
};

/** Every string and count that the vocabulary carries, changed. */
function changed(event: Event): Event {
  const change = (value: unknown): unknown => {
    if (typeof value === "string") return value.replaceAll("vocabulary", "changed");
    if (typeof value === "number" && value > 70) return value + 100;
    if (typeof value !== "object" || value === null || isKept(value)) return value;
    if ("text" in value && "value" in value) return { value: change(value.value) };
    if (Array.isArray(value)) return value.map(change);
    return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, change(each)]));
  };
  return change(event) as Event;
}

t.test("what is written comes from the vocabulary wherever that has a word for it", async (t) => {
  const begun = { ...response, status: "in_progress", output: [], usage: null };
  const items = [thought, search, message, call];
  const events = decoded(
    [
      { type: "response.created", sequence_number: 0, response: begun },
      ...items.flatMap((item, output_index) => [
        { type: "response.output_item.added", output_index, item },
        { type: "response.output_item.done", output_index, item },
      ]),
      { type: "response.completed", response },
    ],
    native,
  );
  for (const told of [events, decode(JSON.stringify(response), native)]) {
    const frames = told === events ? valuesOf(written(events.map(changed))).slice(-1) : [];
    const body = told === events ? frames[0]?.["response"] : JSON.parse(encode(told.map(changed), wishing().context));
    const expected = JSON.stringify(response)
      .replaceAll("vocabulary", "changed")
      .replace(/\b7[1237]\b/g, "1$&");
    t.same(body, JSON.parse(expected.replace('"total_tokens":145', '"total_tokens":345')));
  }
});

t.test("nothing is kept unless it is asked for", async (t) => {
  for (const event of decode(JSON.stringify(response), SOURCE)) t.notOk("native" in event, event.type);
});
