/** Sharp cases of what got lost, was sent twice, or was declared as more than it was. */

import t from "tap";
import { type JsonObject } from "../../src/wire/values.ts";
import { asking, startGateway } from "../support/gateway.ts";
import { httpUpstream } from "../support/upstream.ts";
import { PROTOCOLS } from "../support/vendor-sdks.ts";
import {
  at,
  candidate,
  chatStream,
  chunk,
  joinedAt,
  listAt,
  PLAIN,
  plainly,
  refusalOf,
  responseOf,
  responseStream,
  send,
  streamOf,
} from "./sharp-cases.ts";

const ask = { role: "user", content: "Hi" };
const mark = { type: "ephemeral" };

t.test(
  "a block that only its vendor understands is named where it is refused, also where nothing remains without it",
  async (t) => {
    const block = { type: "hologram", hologram: { a: 1 } };
    const asks: Record<(typeof PROTOCOLS)[number], [JsonObject, string]> = {
      "openai-chat": [{ messages: [{ role: "user", content: [block] }] }, "messages.0.content.0"],
      "openai-responses": [{ input: [{ role: "user", content: [block] }] }, "input.0.content.0"],
      "anthropic-messages": [{ max_tokens: 9, messages: [{ role: "user", content: [block] }] }, "messages.0.content.0"],
      gemini: [{ contents: [{ role: "user", parts: [{ toolCall: {} }] }] }, "contents.0.parts.0"],
    };
    for (const client of PROTOCOLS)
      for (const vendor of PROTOCOLS.filter((name) => name !== client))
        for (const strict of [false, true]) {
          const [asked, param] = asks[client];
          const refused = refusalOf(client, asked, vendor, { strict });
          t.match(refused, { code: "not_translatable", param }, `${client} to ${vendor}`);
          t.match(refused.message, client === "gemini" ? '"toolCall"' : '"hologram"');
        }
  },
);

t.test("a call that Gemini did not expect has each protocol's finish reason for calls", async (t) => {
  const answer = candidate([{ functionCall: { name: "f", args: {} } }], "UNEXPECTED_TOOL_CALL");
  t.equal(plainly("anthropic-messages", "gemini").whole(answer)["stop_reason"], "tool_use");
  t.equal(at(plainly("openai-chat", "gemini").whole(answer), "choices.0.finish_reason"), "tool_calls");
  t.equal(plainly("openai-responses", "gemini").whole(answer)["status"], "completed");
  const streamed = plainly("anthropic-messages", "gemini").streamed(streamOf("gemini", [answer]));
  t.equal(joinedAt(streamed.values, "delta.stop_reason"), "tool_use");
  t.same(streamed.lost, [], "nothing is lost");
});

t.test("a function that is deferred and then added is offered once, in its last definition", async (t) => {
  const tool = (name: string, description: string, more: JsonObject = {}) => ({
    ...{ type: "function", name, description, parameters: { type: "object", properties: {} } },
    ...more,
  });
  const asked = {
    input: [
      ask,
      { type: "additional_tools", role: "developer", tools: [tool("f", "new"), tool("h", "h")] },
      { type: "additional_tools", role: "developer", tools: [tool("h", "h again")] },
      {
        type: "additional_tools",
        role: "developer",
        tools: [{ type: "namespace", name: "other", description: "n", tools: [tool("f", "another")] }],
      },
    ],
    tools: [tool("f", "old", { defer_loading: true }), tool("g", "g")],
    store: false,
  };
  const chat = listAt(send("openai-responses", asked, "openai-chat").body, "tools");
  t.same(
    chat.map((each) => [at(each, "function.name"), at(each, "function.description")]),
    [
      ["f", "new"],
      ["g", "g"],
      ["h", "h again"],
      ["other__f", "another"],
    ],
  );
});

t.test("a cache mark that cannot be expressed is declared as the mark, not as the content that it marks", async (t) => {
  const tools = [{ name: "f", input_schema: { type: "object" }, cache_control: mark }];
  const messages = [
    ask,
    { role: "assistant", content: [{ type: "tool_use", id: "a", name: "f", input: {}, cache_control: mark }] },
    { role: "user", content: [{ type: "tool_result", tool_use_id: "a", content: "ok" }] },
  ];
  const asked = { max_tokens: 10, messages, tools };
  const paths = ["messages.1.content.0.cache_control", "tools.0.cache_control"];
  t.same([...send("anthropic-messages", asked, "openai-chat").dropped].sort(), paths);
  t.same([...send("anthropic-messages", asked, "openai-responses").dropped].sort(), paths);
  const many = Array.from({ length: 6 }, (_, i) => ({ type: "text", text: `${i}`, cache_control: mark }));
  const breakpoints = many.map(({ type, text }) => ({ type, text, prompt_cache_breakpoint: { mode: "explicit" } }));
  t.same(
    send("openai-chat", { messages: [{ role: "user", content: breakpoints }] }, "anthropic-messages").dropped,
    [0, 1].map((i) => `messages.0.content.${i}.prompt_cache_breakpoint`),
  );
});

t.test("a mark within a tool's result marks the result", async (t) => {
  const result = {
    type: "tool_result",
    tool_use_id: "a",
    content: [{ type: "text", text: "ok", cache_control: mark }],
  };
  const messages = [
    ask,
    { role: "assistant", content: [{ type: "tool_use", id: "a", name: "f", input: {} }] },
    { role: "user", content: [result] },
  ];
  const { body, dropped } = send("anthropic-messages", { max_tokens: 10, messages }, "openai-chat", {
    facts: { cache_marks: true },
  });
  t.match(at(body, "messages.2.content"), [
    { type: "text", text: "ok", prompt_cache_breakpoint: { mode: "explicit" } },
  ]);
  t.same(dropped, []);
});

t.test("a member that cannot be expressed is declared, not its parent", async (t) => {
  const image = {
    inlineData: { mimeType: "image/png", data: "iVBO" },
    mediaResolution: { level: "MEDIA_RESOLUTION_ULTRA_HIGH" },
  };
  const asked = { contents: [{ role: "user", parts: [image] }] };
  t.same(send("gemini", asked, "openai-chat").dropped, ["contents.0.parts.0.mediaResolution"]);
  t.same(send("gemini", asked, "openai-responses").dropped, ["contents.0.parts.0.mediaResolution"]);
  const whole = {
    contents: [{ role: "user", parts: [{ inlineData: image.inlineData }] }],
    generationConfig: { mediaResolution: "MEDIA_RESOLUTION_MEDIUM" },
  };
  t.same(send("gemini", whole, "openai-chat").dropped, ["generationConfig.mediaResolution"]);
  const format = { type: "grammar", grammar: { syntax: "lark", definition: "start: /a/" } };
  const chat = { messages: [ask], tools: [{ type: "custom", custom: { name: "c", format } }] };
  t.same(send("openai-chat", chat, "gemini").dropped, ["tools.0.custom.format"]);
  const responses = {
    input: "Hi",
    tools: [{ type: "custom", name: "c", format: { type: "grammar", ...format.grammar } }],
  };
  t.same(send("openai-responses", responses, "gemini").dropped, ["tools.0.format"]);
  const search = { input: "Hi", tools: [{ type: "web_search", search_context_size: "high" }] };
  const claude = { model: "claude" };
  t.same(send("openai-responses", search, "anthropic-messages", claude).dropped, ["tools.0.search_context_size"]);
  const completions = { messages: [ask], web_search_options: { search_context_size: "high" } };
  t.same(send("openai-chat", completions, "anthropic-messages", claude).dropped, [
    "web_search_options.search_context_size",
  ]);
});

t.test("text files are text to Chat: with their names, in results, as bytes and as text", async (t) => {
  const base64 = (text: string) => Buffer.from(text).toString("base64");
  const documents = [
    { type: "document", source: { type: "text", media_type: "text/plain", data: "one" } },
    { type: "document", source: { type: "text", media_type: "text/plain", data: "two" }, title: "two.txt" },
  ];
  const messages = [
    { role: "user", content: documents },
    { role: "assistant", content: [{ type: "tool_use", id: "a", name: "f", input: {} }] },
    { role: "user", content: [{ type: "tool_result", tool_use_id: "a", content: documents.slice(0, 1) }] },
  ];
  const { body, notices } = send("anthropic-messages", { max_tokens: 10, messages }, "openai-chat");
  t.same(listAt(body, "messages.0.content"), [
    { type: "text", text: "one" },
    { type: "text", text: "two.txt\n\ntwo" },
  ]);
  t.same(at(body, "messages.2"), { role: "tool", tool_call_id: "a", content: "one" });
  t.equal(listAt(body, "messages").length, 3);
  t.same(notices, []);
  const part = (data: string, mimeType: string) => ({ inlineData: { mimeType, data } });
  const parts = [part(base64("drei ü"), "text/csv"), part("/w==", "text/plain"), part("JVBERi0=", "application/pdf")];
  t.match(listAt(send("gemini", { contents: [{ role: "user", parts }] }, "openai-chat").body, "messages.0.content"), [
    { type: "text", text: "drei ü" },
    { type: "file", file: { file_data: "data:text/plain;base64,/w==" } },
    { type: "file", file: { file_data: /^data:application\/pdf/ } },
  ]);
});

t.test("empty arguments are an empty object where an object is required", async (t) => {
  const history = (text: string): JsonObject => ({
    messages: [
      ask,
      {
        role: "assistant",
        content: null,
        tool_calls: [{ id: "a", type: "function", function: { name: "f", arguments: text } }],
      },
      { role: "tool", tool_call_id: "a", content: "ok" },
    ],
  });
  for (const text of ["", " ", "[]", "[ ]", "null", "{}"]) {
    t.same(at(send("openai-chat", history(text), "anthropic-messages").body, "messages.1.content.0.input"), {}, text);
    t.same(at(send("openai-chat", history(text), "gemini").body, "contents.1.parts.0.functionCall.args"), {}, text);
    const pieces = text === "" ? [] : [...text];
    const call = (more: JsonObject) => chunk({ tool_calls: [{ index: 0, ...more }] });
    const stream = chatStream([
      call({ id: "a", type: "function", function: { name: "f", arguments: "" } }),
      ...pieces.map((piece) => call({ function: { arguments: piece } })),
      chunk({}, "tool_calls"),
    ]);
    const claude = plainly("anthropic-messages", "openai-chat").streamed(stream);
    t.match(joinedAt(claude.values, "delta.partial_json"), /^(?:\{\})?$/, JSON.stringify(text));
    const gemini = plainly("gemini", "openai-chat").streamed(stream);
    t.same(at(gemini.values.at(-1), "candidates.0.content.parts.0.functionCall.args"), {}, JSON.stringify(text));
    const item = { type: "function_call", id: "fc_1", call_id: "a", name: "f", arguments: text, status: "completed" };
    t.same(at(plainly("anthropic-messages", "openai-responses").whole(responseOf([item])), "content.0.input"), {});
    t.same(
      at(
        plainly("gemini", "openai-responses").whole(responseOf([item])),
        "candidates.0.content.parts.0.functionCall.args",
      ),
      {},
    );
    const events = plainly("anthropic-messages", "openai-responses").streamed(
      streamOf("openai-responses", responseStream([item])),
    );
    t.match(joinedAt(events.values, "delta.partial_json"), /^(?:\{\})?$/, JSON.stringify(text));
  }
  for (const text of ["[1]", "0", '"x"'])
    t.match(refusalOf("openai-chat", history(text), "anthropic-messages"), { status: 400 }, "content is not dropped");
});

t.test("omissions from a whole answer are named in the header, those from a stream in the log", async (t) => {
  const parts = [{ text: "Hi" }, { executableCode: { language: "PYTHON", code: "1" } }];
  const whole = candidate(parts, "STOP", { usageMetadata: { promptTokenCount: 1, totalTokenCount: 2 } });
  const upstream = await httpUpstream((request, reply) => {
    const streams = request.url?.includes("stream");
    reply.writeHead(200, { "content-type": streams ? "text/event-stream" : "application/json" });
    reply.end(streams ? streamOf("gemini", [whole]) : JSON.stringify(whole));
  });
  t.teardown(() => upstream.close());
  const { url, log } = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}/v1beta", speaks: [gemini] } }\nmodels: { any: { targets: [up:x] } }\n`,
  );
  const asked = async (more: JsonObject) => {
    const body = JSON.stringify({ model: "any", ...PLAIN["openai-chat"], ...more });
    const response = await fetch(`${url}/v1/chat/completions`, { method: "POST", headers: asking(), body });
    await response.text();
    return response.headers.get("gateway-dropped");
  };
  t.equal(await asked({ stream_options: undefined, unheard_of: 1 }), "unheard_of, executableCode");
  t.equal(await asked({ stream: true }), null, "its head was sent before");
  for (const line of log.lines.slice(-2)) t.same(line.fields["dropped_from_response"], ["executableCode"]);
});

t.test("an omission from an answer without a name in the protocol is described, wherever it is", async (t) => {
  const message = { id: "msg_1", type: "message", status: "completed", role: "assistant" };
  const text = { type: "output_text", text: "Hi", annotations: [] };
  const judged = responseOf([{ ...message, content: [text] }], { moderation: { input: { flagged: false } } });
  for (const client of ["openai-chat", "anthropic-messages", "gemini"] as const) {
    const sent = plainly(client, "openai-responses");
    sent.whole(judged);
    t.same(sent.losses(), ["moderation"], client);
    t.same(sent.streamed(streamOf("openai-responses", responseStream([], judged))).lost, ["moderation"], client);
    sent.whole({ ...judged, moderation: null });
    t.same(sent.losses(), []);
  }
  const says = (...content: JsonObject[]) => ({
    ...{ id: "msg_1", type: "message", role: "assistant", model: "m", content },
    ...{ stop_reason: "end_turn", usage: { input_tokens: 1, output_tokens: 1 } },
  });
  const result = { type: "mcp_tool_result", tool_use_id: "mcptoolu_1", is_error: false, content: [] };
  const chat = plainly("openai-chat", "anthropic-messages");
  chat.whole(says(result, { type: "text", text: "Hi" }));
  t.same(chat.losses(), ["mcp_tool_result"], "its call was in the answer before");
  const blocked = {
    promptFeedback: { blockReason: "SAFETY", blockReasonMessage: "It was held back." },
    responseId: "r1",
  };
  const called = candidate([{ functionCall: { name: "f", args: {} } }], "STOP");
  Object.assign(listAt(called, "candidates")[0] ?? {}, { finishMessage: "Model generated function call(s)." });
  for (const client of ["openai-chat", "openai-responses"] as const) {
    const sent = plainly(client, "gemini");
    sent.whole(blocked);
    t.same(sent.losses(), [], "why it was filtered");
    sent.whole(called);
    t.same(sent.losses(), [], "a normal end");
  }
  const citation = { type: "web_search_result_location", url: "https://a.test", title: "A", cited_text: "Hi" };
  const responses = plainly("openai-responses", "anthropic-messages");
  responses.whole(says({ type: "text", text: "Hi", citations: [citation] }));
  t.same(responses.losses(), ["output.0.content.annotations.quote"]);
});
