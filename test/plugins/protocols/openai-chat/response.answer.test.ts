import t from "tap";
import openaiChat from "../../../../plugins/protocols/openai-chat/index.ts";
import type { Translation } from "../../../../src/translation/codec.ts";
import type { Event } from "../../../../src/translation/events.ts";
import { chunk, context, DONE, frameOf, only, source, streamed } from "./fixture.ts";

const chat = openaiChat.translation as Translation;
const read = (...frames: unknown[]): Event[] => streamed(chat, frames.map(frameOf));
const choices = (...list: object[]) => ({ id: "1", model: "m", choices: list });
const decode = (body: object) => chat.response.decode(JSON.stringify(body), source);

t.test("an answer has as many choices as can be asked for, and one more is the provider's fault", async (t) => {
  const some = (count: number) =>
    Array.from({ length: count }, (_, index) => ({ index, delta: { content: "a" }, finish_reason: "stop" }));
  t.equal(only(read(choices(...some(128))), "finish").length, 128);
  for (const events of [
    read(choices(...some(129))),
    read(...some(129).map((choice) => choices(choice)), DONE),
    read(choices({ index: 1e9, delta: { content: "a" } }), DONE),
    decode(choices(...some(129).map(({ index }) => ({ index, message: { content: "a" } })))),
  ]) {
    t.match(events.at(-1), { type: "error", fault: { code: "upstream_invalid", message: /128/ } });
    t.equal(only(events, "error").length, 1);
  }
});

t.test("a choice with no number of its own has that of its place", async (t) => {
  for (const index of [undefined, null, "0", -1, 0.5, {}])
    t.match(only(read(choices({ index, delta: { content: "a" }, finish_reason: "stop" })), "finish"), [{ choice: 0 }]);
});

t.test("without [DONE] a stream is whole once every choice has said why it ended", async (t) => {
  const one = (index: number, finish: string | null) =>
    choices({ index, delta: { content: "a" }, finish_reason: finish });
  t.equal(read(one(0, "stop"), one(1, "stop")).at(-1)?.type, "end");
  t.match(read(one(0, null), one(1, "stop")).at(-1), { type: "error", fault: { code: "upstream_truncated" } });
  t.equal(read(one(0, null), one(1, "stop"), DONE).at(-1)?.type, "end");
});

t.test("the sequence that ended a choice is told, as vLLM has it", async (t) => {
  const ended = (finish: string, stopped: unknown, delta: object = { content: "a" }) =>
    only(read(choices({ index: 0, delta, finish_reason: finish, stop_reason: stopped }), DONE), "finish")[0];
  const plain = { type: "finish", choice: 0 };
  t.same(ended("stop", "END"), { ...plain, reason: "stop_sequence", raw: "stop", stopSequence: "END" });
  // The token that ended it, or none: by the vendor's source the usual end.
  for (const other of [154829, null, undefined, "", {}, ["END"]])
    t.same(ended("stop", other), { ...plain, reason: "stop", raw: "stop" }, JSON.stringify(other));
  t.same(ended("end_turn", "end_turn"), { ...plain, reason: "stop", raw: "end_turn" });
  t.same(ended("length", "END"), { ...plain, reason: "length", raw: "length" });
  t.same(ended("tool_calls", "END"), { ...plain, reason: "tool_calls", raw: "tool_calls" });
  const call = { tool_calls: [{ index: 0, id: "a", function: { name: "one", arguments: "{}" } }] };
  t.same(ended("stop", "END", call), { ...plain, reason: "tool_calls", raw: "stop" });
  t.match(ended("stop", "END", { refusal: "no" }), { reason: "refusal" });
  const whole = decode(
    choices({ index: 0, message: { content: "a" }, finish_reason: "stop", stop_reason: "\n\nHuman:" }),
  );
  t.match(only(whole, "finish"), [{ reason: "stop_sequence", stopSequence: "\n\nHuman:" }]);
});

t.test("an end that is told twice keeps its sequence", async (t) => {
  const end = (more: object) => choices({ index: 0, delta: { content: "" }, finish_reason: "stop", ...more });
  const events = read(chunk({ content: "a" }), end({ stop_reason: "END" }), end({}), DONE);
  t.match(only(events, "finish"), [{ reason: "stop_sequence", stopSequence: "END" }]);
});

t.test("an end with a sequence is written again as it came", async (t) => {
  const body = choices({ index: 0, message: { content: "a" }, finish_reason: "stop", stop_reason: "END" });
  const events = chat.response.decode(JSON.stringify(body), { ...source, native: true });
  t.same(JSON.parse(chat.response.encode(events, context())), body);
});

t.test("state that no thought carries to its end is kept up to 8 MiB", async (t) => {
  const entry = (name: string, value: unknown) =>
    chunk({ reasoning_details: [{ type: "reasoning.text", index: 0, text: "a", [name]: value }] });
  const much = "x".repeat(1024 * 1024);
  const frames = (count: number) => Array.from({ length: count }, (_, n) => entry(`member${n}`, much));
  t.equal(read(...frames(7), chunk({}, "stop")).at(-1)?.type, "end");
  for (const events of [
    read(...frames(9), DONE),
    read(...Array.from({ length: 9 }, (_, n) => entry(`member${n}`, [much])), DONE),
    // It is one cap for all choices.
    read(
      ...Array.from({ length: 9 }, (_, index) =>
        choices({ index, delta: { reasoning_details: [{ type: "reasoning.encrypted", data: much }] } }),
      ),
      DONE,
    ),
  ]) {
    t.match(events.at(-1), { type: "error", fault: { code: "upstream_invalid", message: /8 MiB/ } });
    t.equal(only(events, "error").length, 1);
  }
  // Vendors repeat an entry's words with each piece of its text.
  t.equal(read(...Array.from({ length: 20 }, () => entry("format", much)), chunk({}, "stop")).at(-1)?.type, "end");
});

t.test("a time that is no number of seconds is none", async (t) => {
  for (const created of ["1e999", "-1", "0.5", '"x"']) {
    const frame = frameOf(`{"id":"1","created":${created},"choices":[]}`);
    t.notOk("created" in (only(streamed(chat, [frame]), "start")[0] ?? {}), created);
  }
});
