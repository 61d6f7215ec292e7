import t from "tap";
import openaiChat from "../../../../plugins/protocols/openai-chat/index.ts";
import type { Translation } from "../../../../src/translation/codec.ts";
import { runAtOnce } from "../../../../src/translation/steps.ts";
import { chunk, DONE, frameOf, only, source, streamed } from "./fixture.ts";

const chat = openaiChat.translation as Translation;
const ended = (reason: string, delta: object = { content: "a" }) =>
  streamed(chat, [chunk(delta), chunk({}, reason), DONE].map(frameOf));

t.test("other vendors' finish reasons have their meaning, in any case", async (t) => {
  const meanings: Record<string, string> = {
    sensitive: "content_filter",
    SAFETY: "content_filter",
    PROHIBITED_CONTENT: "content_filter",
    MAX_TOKENS: "length",
    model_context_window_exceeded: "context_window",
    "function_call_filter: MALFORMED_FUNCTION_CALL": "malformed_call",
    unheard_of: "other",
  };
  for (const [raw, reason] of Object.entries(meanings)) t.match(only(ended(raw), "finish"), [{ raw, reason }], raw);
});

t.test("an answer that its vendor broke off is a failure, streamed and whole", async (t) => {
  const failures = [
    ["error", 502],
    ["network_error", 502],
    ["insufficient_system_resource", 503],
  ] as const;
  for (const [reason, status] of failures) {
    t.match(ended(reason).at(-1), {
      type: "error",
      fault: { status, message: `The provider's model failed (${reason}).` },
    });
    const body = { id: "1", choices: [{ index: 0, message: { content: "a" }, finish_reason: reason }] };
    const events = runAtOnce(chat.response.decode(Buffer.from(JSON.stringify(body)), source));
    t.match(events.at(-1), { type: "error", fault: { status } });
  }
});

t.test("an end for calls without a call is an ordinary end: clients would wait for the call", async (t) => {
  t.match(only(ended("tool_calls"), "finish"), [{ reason: "stop" }]);
  t.match(only(ended("tool_calls", { refusal: "No." }), "finish"), [{ reason: "refusal" }]);
  const call = { tool_calls: [{ index: 0, id: "a", function: { name: "one", arguments: "{}" } }] };
  t.match(only(ended("tool_calls", call), "finish"), [{ reason: "tool_calls" }]);
});

t.test(
  "a call whose arguments the length limit cut is no call to answer, even if the answer says that it ends for calls",
  async (t) => {
    const call = { index: 0, id: "a", function: { name: "one", arguments: '{"x": 1' } };
    const ends = (native: string | null) => {
      const choice = { index: 0, finish_reason: "tool_calls", native_finish_reason: native };
      const whole = { id: "1", choices: [{ ...choice, message: { tool_calls: [call] } }] };
      const events = runAtOnce(chat.response.decode(Buffer.from(JSON.stringify(whole)), source));
      const chunks = [chunk({ tool_calls: [call] }), { id: "1", choices: [{ ...choice, delta: {} }] }, DONE];
      return [events, streamed(chat, chunks.map(frameOf))].map((each) => only(each, "finish"));
    };
    for (const native of ["length", "max_output_tokens", "MAX_TOKENS"])
      t.match(ends(native), [[{ reason: "length", raw: native }], [{ reason: "length", raw: native }]]);
    for (const native of ["tool_use", "completed", null])
      t.match(ends(native), [[{ reason: "tool_calls" }], [{ reason: "tool_calls" }]]);
  },
);

t.test("a call opens when its name is known, with what came before", async (t) => {
  const pieces = (...list: object[]) =>
    streamed(chat, [...list.map((each) => chunk({ tool_calls: [each] })), chunk({}, "tool_calls"), DONE].map(frameOf));
  const late = pieces(
    { index: 0, id: "a", type: "function", function: { arguments: '{"x"' } },
    { index: 0, function: { name: "one", arguments: ":1}" } },
  );
  t.match(only(late, "open"), [{ kind: "tool_call", id: "a", name: "one" }]);
  t.same(
    only(late, "arguments").map(({ text }) => text),
    ['{"x"', ":1}"],
  );
  const identified = pieces(
    { index: 0, function: { arguments: "" } },
    { index: 0, id: "b", function: { name: "two" } },
  );
  t.match(only(identified, "open"), [{ id: "b", name: "two" }], "the id may come with it");
  const unnamed = pieces({ index: 0, id: "a", function: { name: null, arguments: "{}" } });
  t.match(only(unnamed, "open"), [{ id: "a", name: "" }], "at the end without one");
  t.match(only(unnamed, "arguments"), [{ text: "{}" }]);
  t.match(only(unnamed, "close"), [{ block: 0 }]);
  const long = { index: 0, id: "a", function: { arguments: "x".repeat(5 * 1024 * 1024) } };
  t.match(pieces(long, long).at(-1), { type: "error", fault: { code: "upstream_invalid" } }, "8 MiB at most");
});
