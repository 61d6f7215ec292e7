import t from "tap";
import type { Part, Turn } from "../../../../src/translation/conversation.ts";
import type { Opaque } from "../../../../src/translation/events.ts";
import { type JsonObject } from "../../../../src/wire/values.ts";
import { plain, written } from "./request.asking.ts";

const turn = (role: Turn["role"], ...parts: Part[]): Turn => ({ role, parts, at: "messages.0" });
const text = (text: string): Part => ({ kind: "text", text, at: "messages.0.content" });
const call = (id: string, more: object = {}): Part => ({
  kind: "tool_call",
  id,
  name: "f",
  arguments: "{}",
  at: `call ${id}`,
  ...more,
});
const result = (callId: string, parts: Part[], more: object = {}): Part => ({
  kind: "tool_result",
  callId,
  parts,
  at: `result ${callId}`,
  ...more,
});
const thought = (at: string, more: object = {}): Part => ({ kind: "reasoning", at, ...more });
const state = (more: Partial<Opaque> = {}): { opaque: Opaque } => ({
  opaque: { protocol: "openai-responses", kind: "encrypted", data: "gAAAA", ...more },
});
const write = (...turns: Turn[]) => {
  const { body, losses } = written(plain({ turns }));
  return { items: body["input"] as JsonObject[], dropped: losses.dropped };
};

t.test("one turn of an assistant becomes items in its order", async (t) => {
  const { items } = write(
    turn("assistant", thought("t", state()), text("A"), call("c1"), text("B"), call("c2")),
    turn("user", result("c1", [text("1")]), result("c2", [text("2")]), text("U")),
  );
  t.same(items, [
    { type: "reasoning", summary: [], encrypted_content: "gAAAA" },
    { type: "message", role: "assistant", content: "A" },
    { type: "function_call", call_id: "c1", name: "f", arguments: "{}" },
    { type: "message", role: "assistant", content: "B" },
    { type: "function_call", call_id: "c2", name: "f", arguments: "{}" },
    { type: "function_call_output", call_id: "c1", output: "1" },
    { type: "function_call_output", call_id: "c2", output: "2" },
    { type: "message", role: "user", content: "U" },
  ]);
});

t.test("blocks of a system message stay apart, and every role keeps its place", async (t) => {
  const { items } = write(turn("system", text("A"), text("B")), turn("user", text("U")), turn("developer", text("D")));
  t.same(items, [
    {
      type: "message",
      role: "system",
      content: [
        { type: "input_text", text: "A" },
        { type: "input_text", text: "B" },
      ],
    },
    { type: "message", role: "user", content: "U" },
    { type: "message", role: "developer", content: "D" },
  ]);
});

t.test("a call beside an empty text is only a call", async (t) => {
  const { items } = write(turn("assistant", text(""), call("c1")));
  t.same(
    items.map(({ type }) => type),
    ["function_call"],
  );
});

t.test("a phase stays on the message", async (t) => {
  const { items } = write({ ...turn("assistant", text("A")), phase: "commentary" });
  t.equal(items[0]?.["phase"], "commentary");
});

t.test("reasoning has the summary it was made with, then the one the client kept, then its text", async (t) => {
  const summaryOf = (more: object) => write(turn("assistant", thought("t", more), text("A"))).items[0]?.["summary"];
  const one = (text: string) => [{ type: "summary_text", text }];
  t.same(summaryOf({ ...state({ extra: { summary: ["S"] } }), summary: ["kept"], text: "T" }), one("S"));
  t.same(summaryOf({ ...state(), summary: ["kept"], text: "T" }), one("kept"));
  t.same(summaryOf({ ...state(), text: "T" }), one("T"));
  const { items } = write(turn("assistant", thought("t", state({ extra: { content: ["Hm."] } })), text("A")));
  t.same(items[0]?.["content"], [{ type: "reasoning_text", text: "Hm." }]);
});

t.test("reasoning of nobody or of another vendor is left out and declared", async (t) => {
  const { items, dropped } = write(
    turn("assistant", thought("t0", { text: "T" }), thought("t1", state({ protocol: "gemini" })), text("A")),
  );
  t.same(items, [{ type: "message", role: "assistant", content: "A" }]);
  t.same(dropped, ["t0", "t1"]);
});

t.test("reasoning that lost the item behind it is left out and declared", async (t) => {
  const { items, dropped } = write(
    turn("assistant", thought("t0", state())),
    turn("user", text("U")),
    turn("assistant", thought("t1", state()), thought("t2", state()), call("c1")),
    turn("user", result("c1", [])),
    turn("assistant", thought("t3", state())),
  );
  t.same(
    items.map(({ type }) => type),
    ["message", "reasoning", "reasoning", "function_call", "function_call_output"],
  );
  t.same(dropped.toSorted(), ["t0", "t3"]);
});

t.test("ids and names are what the vendor takes, the same on both sides of a pair", async (t) => {
  const id = "functions.Bash:0";
  const { items } = write(turn("assistant", call(id, { name: "a.b" })), turn("user", result(id, [text("ok")])));
  t.match(items[0], { call_id: /^[\w-]{1,64}$/, name: /^a_b_\w+$/ });
  t.equal(items[0]?.["call_id"], items[1]?.["call_id"]);
});

t.test("arguments are the text they came as, none is an empty object, free text is an input", async (t) => {
  const exact = '{"a": 1.0, "b": 12345678901234567890}';
  const { items } = write(
    turn(
      "assistant",
      call("c1", { arguments: exact }),
      call("c2", { arguments: "" }),
      call("c3", { arguments: "ls", custom: true, namespace: "functions" }),
    ),
  );
  t.same(items, [
    { type: "function_call", call_id: "c1", name: "f", arguments: exact },
    { type: "function_call", call_id: "c2", name: "f", arguments: "{}" },
    { type: "custom_tool_call", call_id: "c3", name: "f", namespace: "functions", input: "ls" },
  ]);
});

t.test("a result with a picture is a list of parts", async (t) => {
  const image: Part = { kind: "media", media: "image", mime: "image/png", source: { base64: "iVBO" }, at: "i" };
  const { items } = write(turn("user", result("c1", [text("a"), image], { custom: true })));
  t.same(items, [
    {
      type: "custom_tool_call_output",
      call_id: "c1",
      output: [
        { type: "input_text", text: "a" },
        { type: "input_image", image_url: "data:image/png;base64,iVBO" },
      ],
    },
  ]);
});

t.test("a result is JSON, empty, or several texts", async (t) => {
  const outputOf = (part: Part) => write(turn("user", part)).items[0]?.["output"];
  t.equal(outputOf(result("c1", [], { json: '{"a":1.0}' })), '{"a":1.0}');
  t.equal(outputOf(result("c1", [])), "");
  t.same(outputOf(result("c1", [text("a"), text("b")])), [
    { type: "input_text", text: "a" },
    { type: "input_text", text: "b" },
  ]);
});

t.test("an error is said in the text where the text does not say it", async (t) => {
  const outputOf = (text_: string) =>
    write(turn("user", result("c1", [text(text_)], { isError: true }))).items[0]?.["output"];
  t.equal(outputOf("no such file"), '{"error":"no such file"}');
  t.equal(outputOf("Error: no such file"), "Error: no such file");
  t.equal(outputOf(""), '{"error":"The tool failed."}');
});

t.test("a mark on a result stands on its last part, one on a call is declared", async (t) => {
  const { items, dropped } = write(
    turn("assistant", call("c1", { cache: {} })),
    turn("user", result("c1", [text("a")], { cache: { ttl: "1h" } })),
  );
  t.same(items[1]?.["output"], [
    { type: "input_text", text: "a", prompt_cache_breakpoint: { mode: "explicit", ttl: "12h" } },
  ]);
  t.same(dropped, ["call c1"]);
});

t.test("foreign items of this protocol are written back, but no reference to what was not kept", async (t) => {
  const foreign = (name: string): Part => ({
    kind: "foreign",
    protocol: "openai-responses",
    name,
    json: { type: name, id: "x" },
    at: name,
  });
  const { items } = write(turn("assistant", foreign("web_search_call"), foreign("item_reference")));
  t.same(items, [{ type: "web_search_call", id: "x" }]);
});
