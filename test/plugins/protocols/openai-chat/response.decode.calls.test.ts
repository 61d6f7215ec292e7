import t from "tap";
import openaiChat from "../../../../plugins/protocols/openai-chat/index.ts";
import type { Translation } from "../../../../src/translation/codec.ts";
import type { Event } from "../../../../src/translation/events.ts";
import { runAtOnce } from "../../../../src/translation/steps.ts";
import { chunk, DONE, frameOf, only, source, streamed } from "./fixture.ts";

const chat = openaiChat.translation as Translation;
const read = (...frames: unknown[]): Event[] => streamed(chat, frames.map(frameOf));
const readCalls = (...calls: unknown[][]): Event[] =>
  read(...calls.map((list) => chunk({ tool_calls: list })), chunk({}, "tool_calls"), DONE);
const unmappedIn = (events: readonly Event[]) => only(events, "unmapped").map(({ path }) => path);
const argumentsOf = (events: readonly Event[], block: number) =>
  only(events, "arguments")
    .filter((event) => event.block === block)
    .map(({ text }) => text)
    .join("");

t.test("interleaved calls keep their own arguments", async (t) => {
  const call = (index: number, more: object) => ({ tool_calls: [{ index, ...more }] });
  const events = read(
    chunk(call(0, { id: "a", type: "function", function: { name: "one", arguments: "" } })),
    chunk(call(1, { id: "b", type: "function", function: { name: "two", arguments: "" } })),
    chunk(call(0, { function: { arguments: '{"x"' } })),
    chunk(call(1, { function: { arguments: '{"y"' } })),
    chunk(call(0, { function: { arguments: ":1.0}" } })),
    chunk(call(1, { function: { arguments: ":12345678901234567890}" } })),
    chunk({}, "tool_calls"),
    DONE,
  );
  const text = (block: number) =>
    only(events, "arguments")
      .filter((event) => event.block === block)
      .map((e) => e.text)
      .join("");
  t.equal(text(0), '{"x":1.0}');
  t.equal(text(1), '{"y":12345678901234567890}');
  t.match(only(events, "open"), [
    { block: 0, id: "a", name: "one" },
    { block: 1, id: "b", name: "two" },
  ]);
  t.match(only(events, "finish"), [{ reason: "tool_calls" }]);
});

t.test("calls without an index, as Mistral sends them, are separate calls", async (t) => {
  const call = (id: string, name: string, text: string) => ({ id, function: { name, arguments: text } });
  const events = read(
    chunk({ tool_calls: [call("a", "one", "{}"), call("b", "two", "{}")] }),
    chunk({ tool_calls: [call("c", "two", '{"n":3}')] }, "tool_calls"),
    DONE,
  );
  t.match(
    only(events, "open").map((event) => event.kind === "tool_call" && event.id),
    ["a", "b", "c"],
  );
});

t.test("a piece with an empty name, an empty or the same id is not a new call", async (t) => {
  const piece = (id: string, name: string, text: string) =>
    chunk({ tool_calls: [{ index: 0, id, type: "function", function: { name, arguments: text } }] });
  const events = read(
    piece("a", "one", ""),
    piece("", "", '{"x"'),
    piece("a", "", ":1"),
    piece("a", "one", "}"),
    chunk({}, "tool_calls"),
    DONE,
  );
  t.equal(only(events, "open").length, 1);
  t.equal(
    only(events, "arguments")
      .map(({ text }) => text)
      .join(""),
    '{"x":1}',
  );
});

t.test("another id with a name at the same index is another call", async (t) => {
  const piece = (id: string) => ({
    tool_calls: [{ index: 0, id, type: "function", function: { name: "one", arguments: "{}" } }],
  });
  const events = read(chunk(piece("a")), chunk(piece("b")), chunk({}, "stop"), DONE);
  t.match(only(events, "open"), [{ id: "a" }, { id: "b" }]);
  t.match(only(events, "finish"), [{ reason: "tool_calls", raw: "stop" }]);
});

t.test("at one index, a call with an id and one without are two calls, in either order", async (t) => {
  const piece = (id: string | undefined, name: string, text: string) =>
    chunk({ tool_calls: [{ index: 0, ...(id !== undefined && { id }), function: { name, arguments: text } }] });
  const told = (...pieces: object[]) => {
    const events = read(...pieces, chunk({}, "tool_calls"), DONE);
    return only(events, "open").map(({ block }) =>
      only(events, "arguments")
        .filter((event) => event.block === block)
        .map(({ text }) => text)
        .join(""),
    );
  };
  for (const [first, second] of [
    ["a", undefined],
    [undefined, "a"],
  ]) {
    t.same(told(piece(first, "one", '{"x":1}'), piece(second, "one", '{"x":2}')), ['{"x":1}', '{"x":2}']);
    t.same(told(piece(first, "one", '{"x":'), piece(second, "one", "1}"), piece(second, "one", "")), ['{"x":1}']);
  }
});

t.test("a last piece that repeats the name, blank or with an id that is late, is not another call", async (t) => {
  const piece = (id: string, text: unknown) => [{ index: 0, id, function: { name: "one", arguments: text } }];
  for (const [first, last] of [
    [piece("a", '{"x":1}'), piece("", "\n")],
    [piece("", '{"x":1}'), piece("a", "")],
    [piece("", '{"x":1}'), piece("a", null)],
  ] as const) {
    const events = readCalls(first, last);
    t.equal(only(events, "open").length, 1);
    t.equal(argumentsOf(events, 0), '{"x":1}');
  }
  t.equal(only(readCalls(piece("a", ""), piece("b", "")), "open").length, 2, "with ids they are two");
});

t.test(
  "a second call of one name without ids is closed like the first, and another name is another call",
  async (t) => {
    const piece = (name: string, text: string) => [{ index: 0, function: { name, arguments: text } }];
    const twice = readCalls(piece("one", '{"x":1}'), piece("one", '{"x":2}'));
    t.same(
      [0, 1].map((block) => argumentsOf(twice, block)),
      ['{"x":1}', '{"x":2}'],
    );
    t.same(
      only(twice, "close").map(({ block }) => block),
      [0, 1],
    );
    t.match(only(readCalls(piece("one", "{}"), piece("two", "")), "open"), [{ name: "one" }, { name: "two" }]);
  },
);

t.test("a call without an id gets one from the translation", async (t) => {
  const events = read(
    chunk(
      { tool_calls: [{ index: 0, id: "", type: "function", function: { name: "one", arguments: "{}" } }] },
      "tool_calls",
    ),
  );
  t.notOk("id" in (only(events, "open")[0] as object));
});

t.test("a custom tool's input is free text", async (t) => {
  const events = read(
    chunk({ tool_calls: [{ index: 0, id: "a", type: "custom", custom: { name: "exec", input: "" } }] }),
    chunk({ tool_calls: [{ index: 0, custom: { input: "ls -l" } }] }),
    chunk({}, "tool_calls"),
    DONE,
  );
  t.match(only(events, "open"), [{ kind: "tool_call", name: "exec", custom: true }]);
  t.match(only(events, "arguments"), [{ text: "ls -l" }]);
});

t.test("the older function_call is a call", async (t) => {
  const events = read(
    chunk({ role: "assistant", function_call: { name: "one", arguments: "" } }),
    chunk({ function_call: { arguments: '{"x":1}' } }),
    chunk({}, "function_call"),
    DONE,
  );
  t.match(only(events, "open"), [{ kind: "tool_call", name: "one" }]);
  t.match(only(events, "arguments"), [{ text: '{"x":1}' }]);
  t.match(only(events, "finish"), [{ reason: "tool_calls", raw: "function_call" }]);
});

t.test("without an index a call is identified by its id, however many there are", async (t) => {
  const ids = Array.from({ length: 300 }, (_, n) => `call_${n}`);
  const events = readCalls(
    ids.map((id) => ({ id, function: { name: "one", arguments: "{" } })),
    ids.toReversed().map((id) => ({ id, function: { arguments: `"${id}":1}` } })),
  );
  t.equal(only(events, "open").length, ids.length);
  for (const [block, id] of ids.entries()) t.equal(argumentsOf(events, block), `{"${id}":1}`);
});

t.test(
  "of calls with the same id the first continues, and a piece without an id belongs to the last call",
  async (t) => {
    const call = (index: number) => ({ index, id: "same", function: { name: `n${index}`, arguments: "" } });
    const events = readCalls(
      [call(0), call(1)],
      [{ id: "same", function: { arguments: "a" } }],
      [{ function: { arguments: "b" } }],
    );
    t.same([argumentsOf(events, 0), argumentsOf(events, 1)], ["a", "b"]);
  },
);

t.test("arguments that are not text are JSON, and invalid ones are declared", async (t) => {
  const call = (value: unknown) => readCalls([{ index: 0, id: "a", function: { name: "one", arguments: value } }]);
  t.equal(argumentsOf(call({ x: 1 }), 0), '{"x":1}');
  t.equal(argumentsOf(call([1]), 0), "[1]");
  t.same(unmappedIn(call(7)), ["tool_calls.arguments"]);
  for (const nothing of ["", null, undefined]) t.same(unmappedIn(call(nothing)), []);
});

t.test("entries that are not calls are declared, of any type", async (t) => {
  const odd = { toString: 1, valueOf: 1 };
  t.same(unmappedIn(readCalls([null, "x", 7])), ["tool_calls"]);
  t.same(unmappedIn(readCalls([{ index: 0, type: odd }])), ["tool_calls"]);
  t.same(unmappedIn(readCalls([{ index: 0, type: "web_search" }])), ["tool_calls.web_search"]);
});

t.test("state on a later piece of its call is declared: a call begins with it", async (t) => {
  const extra = { google: { thought_signature: "sig" } };
  const first = { index: 0, id: "a", function: { name: "one", arguments: "" } };
  const more = { index: 0, function: { arguments: "{}" }, extra_content: extra };
  t.same(unmappedIn(readCalls([first], [more])), ["tool_calls.extra_content"]);
  t.same(unmappedIn(readCalls([{ ...first, extra_content: extra }], [more])), []);
});

t.test("in a whole response a call without a name keeps its place", async (t) => {
  const call = (name: string, text: string) => ({ id: text, function: { name, arguments: text } });
  const message = { role: "assistant", content: null, tool_calls: [call("", '{"x":1}'), call("two", "{}")] };
  const body = { id: "1", model: "m", choices: [{ index: 0, message, finish_reason: "tool_calls" }] };
  const events = runAtOnce(chat.response.decode(Buffer.from(JSON.stringify(body)), source));
  t.match(only(events, "open"), [{ name: "" }, { name: "two" }]);
  t.equal(argumentsOf(events, 0), '{"x":1}');
});
