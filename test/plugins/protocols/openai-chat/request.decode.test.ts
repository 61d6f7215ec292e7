import t from "tap";
import openaiChat from "../../../../plugins/protocols/openai-chat/index.ts";
import { GatewayError } from "../../../../src/core/errors.ts";
import type { Translation } from "../../../../src/translation/codec.ts";
import type { Conversation, Part, ToolCall } from "../../../../src/translation/conversation.ts";
import type { Opaque } from "../../../../src/translation/events.ts";
import { runAtOnce } from "../../../../src/translation/steps.ts";
import { gathered } from "../../../support/gathered.ts";
import { recorded } from "../../../support/recorded.ts";
import { asked, seal, terms } from "./fixture.ts";
import { ODD } from "./request.odd.ts";

const { request } = openaiChat.translation as Translation;
const read = (body: object, more = {}): Conversation =>
  runAtOnce(request.decode(asked({ model: "m", messages: [], ...body }, more)));
const parts = (...messages: object[]): Part[] => read({ messages }).turns.flatMap((turn) => turn.parts);
const uses = (body: object): string[] => read(body).uses.map(({ feature, path }) => `${feature} ${path}`);

t.test("unusual requests are decoded, or refused with a path of the client's", async (t) => {
  const wrong: string[] = [];
  let count = 0;
  for (const body of ODD)
    try {
      const encoded = runAtOnce(request.encode(runAtOnce(request.decode(asked(body))), terms())).body;
      if (runAtOnce(request.decode(asked(encoded))).protocol === "openai-chat") count++;
    } catch (thrown) {
      if (!(thrown instanceof GatewayError && thrown.param)) wrong.push(`${JSON.stringify(body)}: ${thrown}`);
    }
  t.same(wrong, []);
  t.ok(count > ODD.length / 2, `${count} of ${ODD.length} are decoded`);
});

gathered(t, "every recorded request asks only for features that its fields name", async (t) => {
  const known = new Set(request.fields.map(([, feature]) => feature));
  const unknown = recorded("openai-chat").flatMap(({ id, request: body }) => {
    const features = body ? runAtOnce(request.decode(asked(body))).uses.map(({ feature }) => feature) : [];
    return features.filter((feature) => !known.has(feature)).map((feature) => `${id}: ${feature}`);
  });
  t.same(unknown, []);
});

t.test("whether an answer is streamed is set by true or false, and by nothing else", async (t) => {
  for (const stream of ["true", 1, {}])
    t.throws(() => read({ stream }), { code: "invalid_field", param: "stream", message: /true or false/ });
  t.same(uses({ stream: false }), []);
});

t.test("plain turns require no features", async (t) => {
  const messages = [
    { role: "system", content: "Be brief." },
    { role: "user", content: "Hello" },
    { role: "assistant", content: "Hi" },
    { role: "user", content: [{ type: "text", text: "Bye" }] },
  ];
  t.same(uses({ messages, stream: false, n: 1, stop: null, tool_choice: "auto", frequency_penalty: 0 }), []);
});

t.test("roles are kept, and each message is a turn", async (t) => {
  const messages = ["system", "developer", "user", "user", "assistant"].map((role) => ({ role, content: role }));
  t.same(
    read({ messages }).turns.map(({ role, at }) => [role, at]),
    [
      ["system", "messages.0"],
      ["developer", "messages.1"],
      ["user", "messages.2"],
      ["user", "messages.3"],
      ["assistant", "messages.4"],
    ],
  );
});

t.test("a system message between turns and an assistant turn at the end are declared", async (t) => {
  const messages = [
    { role: "user", content: "a" },
    { role: "system", content: "b" },
    { role: "assistant", content: "c" },
  ];
  t.same(uses({ messages }), ["system_in_place messages.1", "prefill messages.2"]);
});

t.test("an assistant's calls without content are calls alone", async (t) => {
  const call = {
    id: "call_1",
    type: "function",
    function: { name: "one", arguments: '{"a": 1.0, "b": 12345678901234567890}' },
  };
  const [first, ...rest] = parts({ role: "assistant", content: null, tool_calls: [call] });
  t.match(first, {
    kind: "tool_call",
    id: "call_1",
    name: "one",
    arguments: '{"a": 1.0, "b": 12345678901234567890}',
    at: "messages.0.tool_calls.0",
  });
  t.same(rest, []);
});

t.test("an assistant's refusal stands behind its text, and in place of one", async (t) => {
  const refusal = { kind: "refusal", text: "No.", at: "messages.0.refusal" };
  t.same(parts({ role: "assistant", content: null, refusal: "No." }), [refusal]);
  t.match(parts({ role: "assistant", content: "Well.", refusal: "No." }), [{ kind: "text", text: "Well." }, refusal]);
  const part = { ...refusal, at: "messages.0.content.0" };
  t.same(parts({ role: "assistant", content: [{ type: "refusal", refusal: "No." }] }), [part]);
});

t.test("a tool's result is the user's, and is marked when its tool takes free text", async (t) => {
  const messages = [
    {
      role: "assistant",
      content: null,
      tool_calls: [{ id: "a", type: "custom", custom: { name: "exec", input: "ls" } }],
    },
    { role: "tool", tool_call_id: "a", content: "out", name: "exec" },
  ];
  const conversation = read({ messages });
  t.match(conversation.turns[0]?.parts, [{ custom: true, arguments: "ls" }]);
  t.match(conversation.turns[1], {
    role: "user",
    parts: [{ kind: "tool_result", callId: "a", custom: true, parts: [{ text: "out" }] }],
  });
  t.same(conversation.uses, []);
});

t.test("older functions are tools, and their results belong to the calls by name", async (t) => {
  const conversation = read({
    functions: [{ name: "one", parameters: { type: "object" } }],
    function_call: { name: "one" },
    messages: [
      { role: "assistant", content: null, function_call: { name: "one", arguments: "{}" } },
      { role: "function", name: "one", content: "1" },
    ],
  });
  const [call] = conversation.turns[0]?.parts as [ToolCall];
  t.match(conversation.turns[1]?.parts, [{ kind: "tool_result", callId: call.id, name: "one" }]);
  t.match(conversation.tools, [{ kind: "function", name: "one" }]);
  t.match(conversation.toolChoice, { mode: "named", name: "one" });
});

t.test("calls and results without ids are paired in order", async (t) => {
  const call = { id: "", type: "function", function: { name: "one", arguments: "{}" } };
  const result = { role: "tool", tool_call_id: "", content: "1" };
  const all = parts({ role: "assistant", tool_calls: [call, call] }, result, result);
  const ids = all.map((part) => (part.kind === "tool_call" ? part.id : part.kind === "tool_result" ? part.callId : ""));
  t.equal(new Set(ids).size, 2);
  t.same(ids.slice(0, 2), ids.slice(2));
});

t.test("results without ids belong to the calls by name, otherwise in order, and each call has one", async (t) => {
  const call = (name: string) => ({ role: "assistant", content: null, function_call: { name, arguments: "{}" } });
  const named = (name: string) => ({ role: "function", name, content: "1" });
  const nameless = { role: "tool", tool_call_id: "", content: "1" };
  const answered = (...results: object[]) =>
    parts(call("one"), call("two"), call("one"), ...results).flatMap((part) =>
      part.kind === "tool_result" ? [part.callId] : [],
    );
  const [first, second, third] = [0, 1, 2].map((n) => `call_messages_${n}_function_call`);
  t.same(answered(named("two"), named("one"), named("one")), [second, first, third]);
  t.same(answered(nameless, named("one"), nameless), [first, third, second]);
  t.same(answered(named("two"), nameless, nameless), [second, first, third]);
  for (const name of ["two", "three", "constructor"])
    t.throws(() => answered(named("two"), named(name)), { code: "invalid_field", param: "messages.4" });
});

t.test("of two tool choices the newer form counts, and the other is declared", async (t) => {
  const body = { messages: [], tool_choice: "none", function_call: { name: "one" } };
  t.same(read(body).toolChoice, { mode: "none" });
  t.same(uses(body), ["tool_choice tool_choice", "other function_call"]);
});

t.test("LiteLLM's ids yield their signature again, and pairs stay pairs", async (t) => {
  const id = `call_1__thought__${"A".repeat(300)}`;
  const all = parts(
    { role: "assistant", tool_calls: [{ id, type: "function", function: { name: "one", arguments: "{}" } }] },
    { role: "tool", tool_call_id: id, content: "1" },
  );
  t.match(all, [
    { id: "call_1", opaque: { protocol: "gemini", kind: "thoughtSignature", data: "A".repeat(300) } },
    { callId: "call_1" },
  ]);
});

t.test("reasoning is read in three dialects", async (t) => {
  t.match(parts({ role: "assistant", content: "a", reasoning_content: "so" }), [
    { kind: "reasoning", text: "so" },
    { text: "a" },
  ]);
  t.match(parts({ role: "assistant", content: "a", reasoning: "so" }), [
    { kind: "reasoning", text: "so" },
    { text: "a" },
  ]);
  const details = [{ type: "reasoning.text", text: "so", signature: "sig", format: "anthropic-claude-v1", index: 0 }];
  const [thought] = parts({ role: "assistant", content: "a", reasoning: "so", reasoning_details: details });
  t.match(thought, { kind: "reasoning", text: "so", opaque: { kind: "reasoning_details" } });
});

const claude: Opaque = {
  protocol: "anthropic-messages",
  account: "acme",
  model: "claude",
  kind: "signature",
  data: "sig",
};

t.test("our envelopes are opened, in whatever form the client kept their entries", async (t) => {
  const common = { format: "gw1", index: 0 };
  const whole = [{ type: "reasoning.text", text: "so it is", signature: seal(claude), ...common }];
  const cut = [
    { type: "reasoning.text", text: "so ", ...common },
    { type: "reasoning.text", text: "it is", ...common },
    { type: "reasoning.text", signature: seal(claude), ...common },
  ];
  for (const reasoning_details of [whole, cut])
    t.match(parts({ role: "assistant", content: "a", reasoning_details }), [
      { text: "so it is", opaque: claude },
      { text: "a" },
    ]);
  const encrypted = [
    { type: "reasoning.summary", summary: "s", ...common },
    { type: "reasoning.encrypted", data: seal(claude), ...common },
  ];
  t.match(parts({ role: "assistant", content: "a", reasoning_details: encrypted }), [
    { summary: ["s"], opaque: claude },
    {},
  ]);
});

t.test("an entry that lost its text takes the text beside it", async (t) => {
  const reasoning_details = [{ type: "reasoning.text", signature: seal(claude), format: "gw1", index: 0 }];
  t.match(parts({ role: "assistant", content: "a", reasoning_content: "so", reasoning_details }), [
    { text: "so", opaque: claude },
    {},
  ]);
});

t.test("state on a call is read from the call, from beside it, or from the store", async (t) => {
  const state: Opaque = {
    protocol: "gemini",
    account: "acme",
    kind: "thoughtSignature",
    data: "sig",
    on: { call: "a" },
  };
  const call = { id: "a", type: "function", function: { name: "one", arguments: "{}" } };
  const google = { google: { thought_signature: seal(state) } };
  t.match(parts({ role: "assistant", tool_calls: [{ ...call, extra_content: google }] }), [{ id: "a", opaque: state }]);
  const reasoning_details = [{ type: "reasoning.encrypted", data: seal(state), format: "gw1", index: 0 }];
  t.match(parts({ role: "assistant", reasoning_details, tool_calls: [call] }), [
    { kind: "reasoning", redacted: true, opaque: state },
    { id: "a" },
  ]);
  const recall = (key: { toString(): string }) => (`${key}`.startsWith("a ") ? state : undefined);
  t.match(read({ messages: [{ role: "assistant", tool_calls: [call] }] }, { recall }).turns[0]?.parts, [
    { opaque: state },
  ]);
});

t.test("members beside a signature on a call, or in its place, are declared", async (t) => {
  const call = { id: "a", type: "function", function: { name: "one", arguments: "{}" } };
  const declared = (extra_content: unknown) =>
    uses({ messages: [{ role: "assistant", tool_calls: [{ ...call, extra_content }] }] });
  const at = "messages.0.tool_calls.0.extra_content";
  t.same(declared({ google: { thought_signature: "s" } }), []);
  t.same(declared({ google: { thought_signature: "s", more: 1 }, acme: { more: 1 } }), [
    `other ${at}.acme`,
    `other ${at}.google.more`,
  ]);
  t.same(declared({ acme: { more: 1 } }), [`other ${at}`]);
  t.same(declared({ google: {} }), [`other ${at}`]);
  t.same(declared("s"), [`other ${at}`]);
  const packed = { ...call, id: "a__thought__sig", extra_content: { acme: 1 } };
  t.match(parts({ role: "assistant", tool_calls: [packed] }), [{ opaque: { protocol: "gemini", data: "sig" } }]);
});

t.test("unreadable reasoning is declared", async (t) => {
  const declared = (more: object) =>
    uses({
      messages: [
        { role: "assistant", content: "a", ...more },
        { role: "user", content: "b" },
      ],
    });
  t.same(declared({ reasoning_details: "so" }), ["other messages.0.reasoning_details"]);
  t.same(declared({ reasoning_details: [{ type: "reasoning.text", text: "so" }, "x"] }), [
    "other messages.0.reasoning_details.1",
    "reasoning_text messages.0.reasoning_details.0",
  ]);
  t.same(declared({ reasoning: "x", reasoning_details: [{ type: "reasoning.text", text: "so" }] }), [
    "reasoning_text messages.0.reasoning_details.0",
    "other messages.0.reasoning",
  ]);
  t.same(declared({ reasoning_details: [{ type: "reasoning.text", text: "so", mood: 1 }] }), [
    "other messages.0.reasoning_details.0.mood",
    "reasoning_text messages.0.reasoning_details.0",
  ]);
  const thinking = ["so ", { type: "text", text: "it is", mood: 1 }, { type: "reference", reference_ids: [1] }];
  t.same(declared({ content: [{ type: "thinking", thinking }] }), [
    "reasoning_text messages.0.content.0",
    "other messages.0.content.0.thinking.1.mood",
    "other messages.0.content.0.thinking.2",
  ]);
  t.match(parts({ role: "assistant", content: [{ type: "thinking", thinking }] }), [{ text: "so it is" }]);
});

t.test("a custom tool's format is read in both forms, and its other members are declared", async (t) => {
  const grammar = { syntax: "lark", definition: "start: WORD" };
  const tool = (format: unknown) => ({ tools: [{ type: "custom", custom: { name: "one", format } }], messages: [] });
  const declared = (format: unknown) => uses(tool(format)).slice(1);
  for (const format of [
    { type: "grammar", grammar },
    { type: "grammar", ...grammar },
  ]) {
    t.match(read(tool(format)).tools, [{ kind: "custom", grammar }]);
    t.same(declared(format), []);
  }
  t.notOk("grammar" in (read(tool({ type: "text" })).tools[0] as object));
  t.same(declared({ type: "text" }), []);
  const at = "tools.0.custom.format";
  t.same(declared({ type: "grammar", grammar: { ...grammar, mood: 1 }, strict: true }), [
    `other ${at}.strict`,
    `other ${at}.grammar.mood`,
  ]);
  t.same(declared({ type: "regex", pattern: "a" }), [`other ${at}`, `other ${at}.pattern`]);
});

t.test("state after a text stays after it", async (t) => {
  const state: Opaque = { protocol: "gemini", kind: "thoughtSignature", data: "sig", on: "text" };
  const reasoning_details = [{ type: "reasoning.encrypted", data: seal(state), format: "gw1", index: 0, id: "behind" }];
  t.match(parts({ role: "assistant", content: "a", reasoning_details }), [
    { kind: "text" },
    { kind: "reasoning", opaque: state },
  ]);
});

t.test("reasoning returns to its place between texts and calls, as far as the client left them", async (t) => {
  const state: Opaque = { protocol: "anthropic-messages", kind: "signature", data: "sig" };
  const entry = (index: number, id?: string) => ({
    type: "reasoning.text",
    text: `${index}`,
    signature: seal(state),
    format: "gw1",
    index,
    ...(id === undefined ? {} : { id }),
  });
  const call = (id: string) => ({ id, type: "function", function: { name: "f", arguments: "{}" } });
  const kinds = (message: object) =>
    parts({ role: "assistant", ...message }).map((part) => ("text" in part ? `${part.kind} ${part.text}` : part.kind));
  const reasoning_details = [entry(0), entry(1, "behind 2 0"), entry(2, "behind 4 1")];
  const tool_calls = [call("a"), call("b")];
  const [first, second, third] = ["reasoning 0", "reasoning 1", "reasoning 2"];
  const all = kinds({ content: "abcd", reasoning_details, tool_calls });
  t.same(all, [first, "text ab", second, "text cd", "tool_call", third, "tool_call"]);
  const inParts = ["a", "bc", "def"].map((text) => ({ type: "text", text }));
  t.same(kinds({ content: inParts, reasoning_details, tool_calls }), [
    ...[first, "text a", "text b", second, "text c", "text d", "tool_call", third, "text ef", "tool_call"],
  ]);
  t.same(kinds({ content: "a", reasoning_details, tool_calls: [] }), [first, "text a", second, third]);
  t.same(kinds({ content: null, reasoning_details, tool_calls }), [first, second, "tool_call", third, "tool_call"]);
  t.same(kinds({ content: "a😀d", reasoning_details: [entry(0, "behind 2 0")] }), ["text a😀", first, "text d"]);
  const annotations = [{ type: "url_citation", url_citation: { url: "u", title: "", start_index: 0, end_index: 4 } }];
  t.same(kinds({ content: "abcd", annotations, reasoning_details: [entry(0, "behind 2 0")] }), [first, "text abcd"]);
  for (const id of ["behind 2", "behind 1e9 0", "behind 2 0 0", "x"])
    t.same(kinds({ content: "abcd", reasoning_details: [entry(0, id)] }), [first, "text abcd"], id);
});

t.test("a file is read by its URL in any spelling of the scheme, not as base64", async (t) => {
  for (const url of ["https://example.com/a.pdf", "HTTPS://example.com/a.pdf"]) {
    const content = [{ type: "file", file: { file_data: url } }];
    t.match(parts({ role: "user", content }), [{ media: "file", source: { url } }]);
  }
});

t.test("media are read with their types, and declared", async (t) => {
  const content = [
    { type: "image_url", image_url: { url: "data:image/png;base64,AAAA", detail: "low" } },
    { type: "image_url", image_url: { url: "https://example.com/a.png" } },
    { type: "input_audio", input_audio: { data: "BBBB", format: "mp3" } },
    { type: "file", file: { filename: "a.pdf", file_data: "data:application/pdf;base64,CCCC" } },
    { type: "file", file: { file_id: "file-1" } },
    { type: "file", file: { filename: "b.png", file_data: "data:image/png;base64,DDDD" } },
  ];
  t.match(parts({ role: "user", content }), [
    { media: "image", mime: "image/png", source: { base64: "AAAA" }, detail: "low" },
    { media: "image", source: { url: "https://example.com/a.png" } },
    { media: "audio", mime: "audio/mpeg", source: { base64: "BBBB" } },
    { media: "file", mime: "application/pdf", filename: "a.pdf", source: { base64: "CCCC" } },
    { media: "file", source: { id: "file-1", protocol: "openai-chat" } },
    { media: "image", mime: "image/png", filename: "b.png", source: { base64: "DDDD" } },
  ]);
  t.same(uses({ messages: [{ role: "user", content }] }), [
    "media_detail messages.0.content.0.image_url.detail",
    "image_base64 messages.0.content.0",
    "image_url messages.0.content.1",
    "audio messages.0.content.2",
    "file_base64 messages.0.content.3",
    "file_id messages.0.content.4",
    "file_base64 messages.0.content.5",
  ]);
});

t.test("cache marks are read in both dialects", async (t) => {
  const content = [
    { type: "text", text: "a", prompt_cache_breakpoint: { mode: "explicit", ttl: "12h" } },
    { type: "text", text: "b", cache_control: { type: "ephemeral" } },
  ];
  t.match(parts({ role: "user", content }), [{ cache: { ttl: "12h" } }, { cache: {} }]);
  const at = "messages.0.content.0";
  const declared = (mark: unknown) =>
    uses({ messages: [{ role: "user", content: [{ type: "text", text: "a", cache_control: mark }] }] });
  t.same(declared({ type: "ephemeral", ttl: "1h" }), [`cache_mark ${at}.cache_control`]);
  t.same(declared({ type: "ephemeral", ttl: "2h", scope: "all" }), [
    `cache_mark ${at}.cache_control`,
    `other ${at}.cache_control.ttl`,
    `other ${at}.cache_control.scope`,
  ]);
  t.same(declared("ephemeral"), [`other ${at}.cache_control`]);
});

t.test("a mark on a result's text is the result's, and a mark for the whole prompt is the request's", async (t) => {
  const call = { id: "a", type: "function", function: { name: "f", arguments: "{}" } };
  const content = [{ type: "text", text: "ok", prompt_cache_breakpoint: { mode: "explicit" } }];
  const [, result] = parts(
    { role: "assistant", content: null, tool_calls: [call] },
    { role: "tool", tool_call_id: "a", content },
  );
  t.match(result, { kind: "tool_result", cache: {}, parts: [{ text: "ok", cache: undefined }] });
  const whole = (prompt_cache_options: object) => {
    const { cache, uses } = read({ prompt_cache_options });
    return [cache, ...uses.map(({ feature }) => feature)];
  };
  t.same(whole({ ttl: "12h" }), [{ ttl: "12h" }, "cache_mark"]);
  t.same(whole({}), [{}, "cache_mark"]);
  t.same(whole({ mode: "explicit" }), [undefined, "cosmetic"]);
  t.same(whole({ ttl: "12h", comparison_response_id: "a" }), [{ ttl: "12h" }, "cache_mark", "other"]);
});

t.test("a data: URL without base64 is refused with its path", async (t) => {
  const url = "data:text/plain,hello";
  for (const [part, param] of [
    [{ type: "image_url", image_url: { url } }, "image_url"],
    [{ type: "file", file: { file_data: url } }, "file.file_data"],
    [{ type: "document_url", document_url: url }, "document_url"],
  ] as const)
    t.throws(() => parts({ role: "user", content: [part] }), {
      code: "invalid_field",
      param: `messages.0.content.0.${param}`,
    });
});

t.test("media in another protocol's form is no block that can be left out", async (t) => {
  const url = "data:image/png;base64,aGk=";
  for (const part of [
    { type: "input_image", image_url: url },
    { type: "image", source: { type: "base64", media_type: "image/png", data: "aGk=" } },
    { type: "document", source: { type: "url", url: "https://a.example/b.pdf" } },
    { type: "input_file", file_url: "https://a.example/b.pdf" },
  ])
    t.same(uses({ messages: [{ role: "user", content: [part] }] }), ["foreign_media messages.0.content.0"]);
  const unheardOf = { type: "input_hologram", data: "x" };
  t.same(uses({ messages: [{ role: "user", content: [unheardOf] }] }), ["foreign_block messages.0.content.0"]);
});

t.test("a video is decoded from its URL, or from its bytes", async (t) => {
  const content = (video_url: unknown) => [{ type: "video_url", video_url }];
  const video = (url: string) => parts({ role: "user", content: content({ url }) });
  t.match(video("https://a.example/b.mp4"), [{ media: "video", source: { url: "https://a.example/b.mp4" } }]);
  t.match(video("data:video/mp4;base64,aGk="), [{ media: "video", mime: "video/mp4", source: { base64: "aGk=" } }]);
  t.same(uses({ messages: [{ role: "user", content: content({ url: "https://a.example/b.mp4" }) }] }), [
    "video messages.0.content.0",
  ]);
  t.throws(() => parts({ role: "user", content: content({}) }), {
    code: "invalid_field",
    param: "messages.0.content.0.video_url.url",
  });
});

t.test("a document's URL may contain its bytes", async (t) => {
  const document = (document_url: string) => parts({ role: "user", content: [{ type: "document_url", document_url }] });
  t.match(document("https://a.example/b.pdf"), [{ source: { url: "https://a.example/b.pdf" } }]);
  t.match(document("data:application/pdf;base64,aGk="), [{ mime: "application/pdf", source: { base64: "aGk=" } }]);
  t.match(document("aGk="), [{ mime: undefined, source: { base64: "aGk=" } }]);
});

t.test("tools keep the text of their schemas", async (t) => {
  const text =
    '{"model":"m","messages":[],"tools":[{"type":"function","function":{"name":"one","strict":true,"parameters":{"b":1.0,"a":{"$ref":"#/x"}}}}]}';
  const [tool] = runAtOnce(request.decode(asked(text))).tools;
  t.equal(tool?.kind === "function" && tool.parameters?.text, '{"b":1.0,"a":{"$ref":"#/x"}}');
  t.same(uses(JSON.parse(text)), ["tools tools.0", "tools_strict tools.0.function.strict"]);
});

t.test("every form of tool_choice is read", async (t) => {
  const choice = (tool_choice: unknown) => read({ tool_choice }).toolChoice;
  t.same(choice("required"), { mode: "required" });
  t.same(choice({ type: "function", function: { name: "one" } }), { mode: "named", name: "one" });
  t.same(choice({ type: "custom", custom: { name: "one" } }), { mode: "named", name: "one", custom: true });
  const allowed_tools = { mode: "required", tools: [{ type: "function", function: { name: "one" } }] };
  t.same(choice({ type: "allowed_tools", allowed_tools }), { mode: "allowed", required: true, names: ["one"] });
  t.throws(() => choice("sometimes"), { code: "invalid_field", param: "tool_choice" });
  const tools = [{ type: "function", function: { name: "one" } }, { type: "web_search" }];
  t.same(choice({ type: "allowed_tools", allowed_tools: { mode: "auto", tools } }), {
    mode: "allowed",
    required: false,
    names: ["one", "web_search"],
  });
  t.throws(() => choice({ type: "allowed_tools", allowed_tools: { tools: [{}] } }), {
    code: "invalid_field",
    param: "tool_choice.allowed_tools.tools.0",
  });
});

t.test("other members of a choice or a format are declared lost", async (t) => {
  const one = { type: "function", function: { name: "one", x: 1 }, y: 2 };
  t.same(uses({ tool_choice: one }), [
    "tool_choice tool_choice",
    "other tool_choice.y",
    "other tool_choice.function.x",
  ]);
  t.same(uses({ tool_choice: { type: "function", name: "one", y: 2 } }), [
    "tool_choice tool_choice",
    "other tool_choice.y",
  ]);
  t.same(uses({ tool_choice: { type: "allowed_tools", allowed_tools: { mode: "auto", tools: [one], z: 3 } } }), [
    "tool_choice tool_choice",
    "tool_choice_allowed tool_choice.allowed_tools",
    "other tool_choice.allowed_tools.tools.0.y",
    "other tool_choice.allowed_tools.tools.0.function.x",
    "other tool_choice.allowed_tools.z",
  ]);
  t.same(uses({ response_format: { type: "json_object", schema: {} } }), [
    "json_object response_format",
    "other response_format.schema",
  ]);
});

t.test("a schema beside the type of the response format is the answer's, of json_object too", async (t) => {
  const schema = { type: "object", properties: { a: { type: "string" } } };
  for (const type of ["json_object", "json_schema"]) {
    const { format } = read({ response_format: { type, schema, name: "one" } });
    t.match(format, { kind: "schema", name: "one" }, type);
    t.strictSame(JSON.parse(JSON.stringify(format?.schema)), schema, type);
    t.same(uses({ response_format: { type, schema } }), ["json_schema response_format"], type);
  }
  t.match(read({ response_format: { type: "json_schema", json_schema: { name: "a", schema }, schema: { x: 1 } } }), {
    format: { name: "a" },
  });
  t.match(read({ response_format: { type: "text", schema } }).format, { kind: "text" });
});

t.test("web_search_options are the tool", async (t) => {
  const web_search_options = {
    search_context_size: "low",
    user_location: { type: "approximate", approximate: { city: "Bern" } },
  };
  const conversation = read({ web_search_options });
  t.match(conversation.tools, [{ kind: "web_search", size: "low", location: { city: "Bern" } }]);
  t.match(conversation.uses, [{ feature: "web_search", path: "web_search_options" }]);
  t.match(conversation.tools, [
    {
      apart: true,
      paths: { size: "web_search_options.search_context_size", location: "web_search_options.user_location" },
    },
  ]);
});

t.test("members declare the features that they require", async (t) => {
  const body = {
    max_tokens: 5,
    stop: "x",
    n: 2,
    temperature: 1.5,
    seed: 1,
    logprobs: true,
    top_logprobs: 3,
    reasoning_effort: "high",
    response_format: { type: "json_schema", json_schema: { name: "a", strict: true, schema: { type: "object" } } },
    parallel_tool_calls: false,
    user: "u",
    metadata: { a: "b" },
    service_tier: "flex",
    store: true,
    prediction: { type: "content", content: "x" },
    transforms: [],
  };
  t.match(read(body), {
    maxTokens: 5,
    stop: ["x"],
    choices: 2,
    temperature: 1.5,
    logprobs: 3,
    reasoning: { effort: "high" },
    format: { kind: "schema", name: "a", strict: true },
    parallel: false,
    user: "u",
    metadata: { a: "b" },
    tier: "flex",
    store: true,
  });
  t.same(uses(body).sort(), [
    "choices n",
    "json_schema response_format",
    "json_schema_strict response_format.json_schema.strict",
    "logprobs logprobs",
    "max_tokens max_tokens",
    "metadata metadata",
    "other transforms",
    "parallel_off parallel_tool_calls",
    "prediction prediction",
    "reasoning_effort reasoning_effort",
    "seed seed",
    "stop stop",
    "store store",
    "temperature temperature",
    "tier service_tier",
    "user user",
  ]);
});

t.test("OpenRouter's reasoning is read", async (t) => {
  t.match(read({ reasoning: { max_tokens: 2000, exclude: true } }).reasoning, { budget: 2000, show: false });
  t.match(read({ reasoning: { enabled: false } }).reasoning, { effort: "none" });
  t.equal(read({ reasoning_effort: "default" }).reasoning, undefined);
});

t.test("numbers beyond a double keep their digits", async (t) => {
  const conversation = runAtOnce(request.decode(asked('{"model":"m","messages":[],"seed":12345678901234567890}')));
  t.match(runAtOnce(request.encode(conversation, terms())).body, '"seed":12345678901234567890');
});

t.test("a wrong field is named by the client's path", async (t) => {
  const wrong = (body: object) => () => read(body);
  t.throws(wrong({ messages: {} }), { code: "invalid_field", param: "messages" });
  for (const modalities of ["text", ["text", 7], [{ toString: 1, valueOf: 1 }]])
    t.throws(wrong({ messages: [], modalities }), { code: "invalid_field", param: "modalities" });
  t.throws(wrong({ messages: [3] }), { code: "invalid_field", param: "messages.0" });
  t.throws(wrong({ messages: [{ role: "robot" }] }), { code: "invalid_field", param: "messages.0.role" });
  t.throws(wrong({ messages: [{ role: "user", content: 3 }] }), { code: "invalid_field", param: "messages.0.content" });
  t.throws(wrong({ messages: [{ role: "user", content: [{ type: "image_url" }] }] }), {
    code: "invalid_field",
    param: "messages.0.content.0.image_url.url",
  });
  for (const file of [{}, { filename: "a.pdf" }])
    t.throws(wrong({ messages: [{ role: "user", content: [{ type: "file", file }] }] }), {
      code: "invalid_field",
      param: "messages.0.content.0.file",
    });
  t.throws(wrong({ messages: [{ role: "tool", content: "1" }] }), {
    code: "invalid_field",
    param: "messages.0.tool_call_id",
  });
  t.throws(wrong({ messages: [{ role: "function", name: "one", content: "1" }] }), {
    code: "invalid_field",
    param: "messages.0",
  });
  t.throws(wrong({ tools: [{ type: "function" }] }), { code: "invalid_field", param: "tools.0.function" });
  t.throws(wrong({ temperature: "hot" }), { code: "invalid_field", param: "temperature" });
  t.throws(wrong({ response_format: { type: "yaml" } }), { code: "invalid_field", param: "response_format.type" });
});
