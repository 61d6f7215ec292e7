import t from "tap";
import openaiChat from "../../../../plugins/protocols/openai-chat/index.ts";
import type { Translation } from "../../../../src/translation/codec.ts";
import type { Event } from "../../../../src/translation/events.ts";
import { chunk, DONE, frameOf, only, streamed } from "./fixture.ts";

const chat = openaiChat.translation as Translation;
const read = (...calls: unknown[][]): Event[] =>
  streamed(chat, [...calls.map((list) => chunk({ tool_calls: list })), chunk({}, "tool_calls"), DONE].map(frameOf));
const argumentsOf = (events: readonly Event[], block: number) =>
  only(events, "arguments")
    .filter((event) => event.block === block)
    .map(({ text }) => text)
    .join("");
const unsaid = (events: readonly Event[]) => only(events, "unsaid").map(({ path }) => path);

t.test("without an index a call is known by its id, however many there are", async (t) => {
  const ids = Array.from({ length: 300 }, (_, n) => `call_${n}`);
  const events = read(
    ids.map((id) => ({ id, function: { name: "one", arguments: "{" } })),
    ids.toReversed().map((id) => ({ id, function: { arguments: `"${id}":1}` } })),
  );
  t.equal(only(events, "open").length, ids.length);
  for (const [block, id] of ids.entries()) t.equal(argumentsOf(events, block), `{"${id}":1}`);
});

t.test("of calls with the same id the first goes on, and a piece without an id is the last call's", async (t) => {
  const call = (index: number) => ({ index, id: "same", function: { name: `n${index}`, arguments: "" } });
  const events = read(
    [call(0), call(1)],
    [{ id: "same", function: { arguments: "a" } }],
    [{ function: { arguments: "b" } }],
  );
  t.same([argumentsOf(events, 0), argumentsOf(events, 1)], ["a", "b"]);
});

t.test("arguments that are not text are JSON, and what they cannot be is named", async (t) => {
  const call = (value: unknown) => read([{ index: 0, id: "a", function: { name: "one", arguments: value } }]);
  t.equal(argumentsOf(call({ x: 1 }), 0), '{"x":1}');
  t.equal(argumentsOf(call([1]), 0), "[1]");
  t.same(unsaid(call(7)), ["tool_calls.arguments"]);
  for (const nothing of ["", null, undefined]) t.same(unsaid(call(nothing)), []);
});

t.test("entries that are no calls are named, whatever they are", async (t) => {
  const odd = { toString: 1, valueOf: 1 };
  t.same(unsaid(read([null, "x", 7])), ["tool_calls"]);
  t.same(unsaid(read([{ index: 0, type: odd }])), ["tool_calls"]);
  t.same(unsaid(read([{ index: 0, type: "web_search" }])), ["tool_calls.web_search"]);
});

t.test("state that comes on a later piece of its call is named: a call opens with it", async (t) => {
  const extra = { google: { thought_signature: "sig" } };
  const first = { index: 0, id: "a", function: { name: "one", arguments: "" } };
  const more = { index: 0, function: { arguments: "{}" }, extra_content: extra };
  t.same(unsaid(read([first], [more])), ["tool_calls.extra_content"]);
  t.same(unsaid(read([{ ...first, extra_content: extra }], [more])), []);
});
