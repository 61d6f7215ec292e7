import t from "tap";
import type { Part } from "../../../../src/translation/conversation.ts";
import { read, says } from "./request.asking.ts";

const items = (...input: object[]) => read({ model: "any", input });
const parts = (...input: object[]): Part[] => items(...input).turns.flatMap((turn) => turn.parts);

t.test("each item is a turn of its own, with the place it stands at", async (t) => {
  const { turns } = items(
    { role: "developer", content: "D" },
    { type: "message", role: "user", content: [{ type: "input_text", text: "U" }] },
    { type: "reasoning", summary: [], encrypted_content: "gAAAA" },
    { type: "function_call", call_id: "c1", name: "f", arguments: "{}" },
    { type: "function_call_output", call_id: "c1", output: "ok" },
  );
  t.same(
    turns.map(({ role, at, parts: [part] }) => [role, at, part?.kind, part?.at]),
    [
      ["developer", "input.0", "text", "input.0.content"],
      ["user", "input.1", "text", "input.1.content.0"],
      ["assistant", "input.2", "reasoning", "input.2"],
      ["assistant", "input.3", "tool_call", "input.3"],
      ["user", "input.4", "tool_result", "input.4"],
    ],
  );
});

t.test("reasoning brings its summary, its text and its state, but no id", async (t) => {
  const [part] = parts({
    type: "reasoning",
    id: "rs_1",
    summary: [
      { type: "summary_text", text: "One" },
      { type: "summary_text", text: "Two" },
    ],
    content: [{ type: "reasoning_text", text: "Hm." }],
    encrypted_content: "gAAAA",
  });
  t.same(part, {
    kind: "reasoning",
    at: "input.0",
    text: "Hm.",
    summary: ["One", "Two"],
    opaque: { protocol: "openai-responses", kind: "encrypted", data: "gAAAA" },
  });
});

t.test("reasoning with an envelope brings what the envelope holds, on the call it belongs to", async (t) => {
  const opaque = { protocol: "gemini", account: "g", kind: "thoughtSignature", data: "c2ln", on: { call: "c1" } };
  const input = [{ type: "reasoning", summary: [], content: null, encrypted_content: "gw1.x" }];
  const { turns } = read(
    { model: "any", input },
    { open: (text) => (text === "gw1.x" ? opaque : { ...opaque, data: "" }) },
  );
  t.same(turns[0]?.parts, [{ kind: "reasoning", at: "input.0", opaque }]);
});

t.test("arguments and free text are kept as they are written", async (t) => {
  const text = '{"a": 1.0, "b": 12345678901234567890}';
  const calls = parts(
    { type: "function_call", id: "fc_1", call_id: "c1", name: "f", arguments: text, status: "completed" },
    { type: "custom_tool_call", call_id: "c2", name: "exec", namespace: "functions", input: "ls\n" },
  );
  t.same(calls, [
    { kind: "tool_call", id: "c1", name: "f", arguments: text, at: "input.0" },
    {
      kind: "tool_call",
      id: "c2",
      name: "exec",
      namespace: "functions",
      arguments: "ls\n",
      custom: true,
      at: "input.1",
    },
  ]);
});

t.test("a result may be text or parts, with pictures and files", async (t) => {
  const call = { type: "function_call", call_id: "c1", name: "f", arguments: "" };
  const output = [
    { type: "input_text", text: "a" },
    { type: "input_image", image_url: "data:image/png;base64,iVBO", detail: "original" },
  ];
  const conversation = items(call, { type: "function_call_output", call_id: "c1", output });
  t.same(conversation.turns[1]?.parts, [
    {
      kind: "tool_result",
      callId: "c1",
      at: "input.1",
      parts: [
        { kind: "text", text: "a", at: "input.1.output.0" },
        {
          kind: "media",
          media: "image",
          mime: "image/png",
          source: { base64: "iVBO" },
          detail: "original",
          at: "input.1.output.1",
        },
      ],
    },
  ]);
  t.same(says(conversation), [
    "image_base64 input.1.output.1.image_url",
    "media_detail input.1.output.1.detail",
    "tool_result_media input.1.output.1",
  ]);
});

t.test("tools of an item join the others", async (t) => {
  const conversation = read({
    model: "any",
    tools: [{ type: "function", name: "f" }],
    input: [
      { type: "additional_tools", id: "at_1", role: "developer", tools: [{ type: "function", name: "g" }] },
      { role: "user", content: "Hi" },
    ],
  });
  t.same(
    conversation.tools.map((tool) => [tool.kind === "function" && tool.name, tool.at]),
    [
      ["f", "tools.0"],
      ["g", "input.0.tools.0"],
    ],
  );
  t.equal(conversation.turns.length, 1);
});

t.test(
  "a reference to reasoning is let go, one to a turn and a compaction cannot be, and other items of the vendor's are foreign",
  async (t) => {
    const conversation = items(
      { type: "item_reference", id: "rs_1" },
      { type: "web_search_call", id: "ws_1", status: "completed" },
      { type: "compaction", encrypted_content: "gAAAA" },
      { id: "msg_1", type: null },
      { type: "never_heard_of", deep: { a: 1 } },
    );
    t.same(says(conversation), [
      "other input.0",
      "foreign_block input.1",
      "stored_state input.2",
      "stored_state input.3",
      "foreign_block input.4",
    ]);
    t.same(conversation.turns[4]?.parts, [
      {
        kind: "foreign",
        protocol: "openai-responses",
        name: "never_heard_of",
        json: { type: "never_heard_of", deep: { a: 1 } },
        at: "input.4",
      },
    ]);
  },
);

t.test("a turn by its id is refused with the way to say it, whatever it is", async (t) => {
  for (const id of ["msg_1", "fc_1", "", null, undefined, 5]) {
    const [uses] = items({ type: "item_reference", id }).uses;
    t.match(uses, { feature: "stored_state", path: "input.0", hint: /store: false/ }, String(id));
  }
});

t.test("an id with anything else is no reference: an item says its type", async (t) => {
  for (const item of [{ id: "msg_1", content: "Hi" }, { id: 5 }, {}])
    t.throws(() => items(item), { code: "invalid_field", param: "input.0.type" });
});

t.test("a place that says something is said: a system message between turns, an assistant's at the end", async (t) => {
  const conversation = items(
    { role: "system", content: "S" },
    { role: "developer", content: "D" },
    { role: "user", content: "U" },
    { role: "system", content: "S" },
    { role: "assistant", phase: "commentary", content: [{ type: "output_text", text: "Well," }] },
  );
  t.same(says(conversation), ["phase input.4.phase", "system_in_place input.3", "prefill input.4"]);
  t.equal(conversation.turns[4]?.phase, "commentary");
});

t.test("a name is kept, and what nobody knows is said", async (t) => {
  const conversation = items({ role: "user", name: "Ada", content: "Hi", mood: "good" });
  t.equal(conversation.turns[0]?.name, "Ada");
  t.same(says(conversation), ["name input.0.name", "other input.0.mood"]);
});
