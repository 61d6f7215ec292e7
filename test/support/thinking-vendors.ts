/** Four providers that think and call a tool, and the state they require in the next request. */
import { asList, asObject, asText, type JsonObject } from "../../src/wire/values.ts";
import type { ProtocolName } from "./vendor-sdks.ts";

export interface ThinkingVendor {
  /** The complete first response. */
  whole: JsonObject;
  /** The same as a stream's events: name (or undefined) and value. */
  stream: readonly (readonly [name: string | undefined, value: unknown])[];
  /** Returns the state in a second request, in order. */
  state(body: JsonObject): unknown;
  /** The required state. */
  expected: unknown;
}

const objects = (value: unknown): JsonObject[] => asList(value).map((each) => asObject(each) ?? {});

const SIGNATURE = "EqQBCgIYAhIkYjVmZmE5ZDAtNzk3Zi00ZTI5LWI2ODUtM2E5ZWQ+/w==";
const REDACTED = "EmwKAhgCEiQ3ZGY1MmU4Zi00NzU3LTQ1ZjAtYTU2Yy0+/w==";
const ENCRYPTED = "gAAAAABo_encrypted-by-the-vendor_0123456789+/==";
const ARGUMENTS = '{"city":"Oslo","days":1.0}';

const anthropicContent = [
  { type: "thinking", thinking: "The user wants the weather.", signature: SIGNATURE },
  { type: "redacted_thinking", data: REDACTED },
  { type: "thinking", thinking: "", signature: `${SIGNATURE}2` },
  { type: "text", text: "Let me look." },
  { type: "tool_use", id: "toolu_01A", name: "get_weather", input: JSON.parse(ARGUMENTS) },
];
const anthropicMessage = {
  id: "msg_01",
  type: "message",
  role: "assistant",
  model: "claude",
  content: anthropicContent,
  stop_reason: "tool_use",
  stop_sequence: null,
  usage: { input_tokens: 10, output_tokens: 20 },
};

function anthropicStream(): (readonly [string, unknown])[] {
  const events: (readonly [string, unknown])[] = [];
  const send = (type: string, more: object) => events.push([type, { type, ...more }]);
  const delta = (index: number, value: object) => send("content_block_delta", { index, delta: value });
  send("message_start", { message: { ...anthropicMessage, content: [], stop_reason: null } });
  for (const [index, block] of anthropicContent.entries()) {
    const empty: Record<string, object> = {
      thinking: { type: "thinking", thinking: "", signature: "" },
      redacted_thinking: block,
      text: { type: "text", text: "" },
      tool_use: { ...block, input: {} },
    };
    send("content_block_start", { index, content_block: empty[block.type] });
    if (block.type === "thinking") {
      if (block.thinking) delta(index, { type: "thinking_delta", thinking: block.thinking });
      delta(index, { type: "signature_delta", signature: block.signature });
    }
    if (block.type === "text") delta(index, { type: "text_delta", text: block.text });
    if (block.type === "tool_use")
      for (const piece of ["", ARGUMENTS.slice(0, 9), ARGUMENTS.slice(9)])
        delta(index, { type: "input_json_delta", partial_json: piece });
    send("content_block_stop", { index });
  }
  send("message_delta", { delta: { stop_reason: "tool_use", stop_sequence: null }, usage: { output_tokens: 20 } });
  send("message_stop", {});
  return events;
}

const reasoningItem = {
  id: "rs_01",
  type: "reasoning",
  summary: [{ type: "summary_text", text: "**Weather**" }],
  encrypted_content: ENCRYPTED,
};
const callItem = {
  id: "fc_01",
  type: "function_call",
  status: "completed",
  call_id: "call_01",
  name: "get_weather",
  arguments: ARGUMENTS,
};
const response = {
  id: "resp_01",
  object: "response",
  created_at: 1790000000,
  status: "completed",
  model: "gpt",
  output: [reasoningItem, callItem],
  error: null,
  incomplete_details: null,
  instructions: null,
  metadata: {},
  parallel_tool_calls: true,
  tool_choice: "auto",
  tools: [],
  temperature: 1,
  top_p: 1,
  usage: {
    input_tokens: 10,
    input_tokens_details: { cached_tokens: 0 },
    output_tokens: 20,
    output_tokens_details: { reasoning_tokens: 12 },
    total_tokens: 30,
  },
};

function responsesStream(): (readonly [string, unknown])[] {
  let sequence = 0;
  const events: (readonly [string, unknown])[] = [];
  const send = (type: string, more: object) => events.push([type, { type, sequence_number: sequence++, ...more }]);
  const open = { ...response, status: "in_progress", output: [], usage: null };
  send("response.created", { response: open });
  send("response.in_progress", { response: open });
  const thought = { item_id: "rs_01", output_index: 0, summary_index: 0 };
  const part = { type: "summary_text", text: "**Weather**" };
  send("response.output_item.added", {
    output_index: 0,
    item: { ...reasoningItem, summary: [], encrypted_content: "gAAAA" },
  });
  send("response.reasoning_summary_part.added", { ...thought, part: { ...part, text: "" } });
  send("response.reasoning_summary_text.delta", { ...thought, delta: part.text });
  send("response.reasoning_summary_text.done", { ...thought, text: part.text });
  send("response.reasoning_summary_part.done", { ...thought, part });
  send("response.output_item.done", { output_index: 0, item: reasoningItem });
  const call = { item_id: "fc_01", output_index: 1 };
  send("response.output_item.added", { output_index: 1, item: { ...callItem, status: "in_progress", arguments: "" } });
  send("response.function_call_arguments.delta", { ...call, delta: ARGUMENTS });
  send("response.function_call_arguments.done", { ...call, name: "get_weather", arguments: ARGUMENTS });
  send("response.output_item.done", { output_index: 1, item: callItem });
  send("response.completed", { response });
  return events;
}

const geminiParts = [
  { text: "The user wants the weather.", thought: true },
  {
    functionCall: { id: "call-1", name: "get_weather", args: JSON.parse(ARGUMENTS) },
    thoughtSignature: "CiQB0e2Kb/first+call==",
  },
  { functionCall: { id: "call-2", name: "get_weather", args: { city: "Paris" } } },
];
const geminiAnswer = (parts: readonly object[], finishReason?: string) => ({
  candidates: [{ content: { role: "model", parts }, ...(finishReason ? { finishReason } : {}), index: 0 }],
  usageMetadata: { promptTokenCount: 10, candidatesTokenCount: 8, thoughtsTokenCount: 12, totalTokenCount: 30 },
  modelVersion: "gemini",
  responseId: "abc",
});

const details = [
  {
    type: "reasoning.text",
    text: "The user wants the weather.",
    signature: SIGNATURE,
    format: "anthropic-claude-v1",
    index: 0,
  },
  { type: "reasoning.encrypted", data: ENCRYPTED, id: "rs_1", format: "openai-responses-v1", index: 1 },
];
const chatCall = {
  id: "call_01",
  type: "function",
  function: { name: "get_weather", arguments: ARGUMENTS },
  extra_content: { google: { thought_signature: "CiQB0e2Kb/on+the+call==" } },
};
const chatUsage = { prompt_tokens: 10, completion_tokens: 20, total_tokens: 30 };
const chatHead = { id: "gen-1", created: 1790000000, model: "any" };

function chatStream(): (readonly [undefined, unknown])[] {
  const chunk = (delta: object, finish: string | null = null): readonly [undefined, unknown] => [
    undefined,
    { ...chatHead, object: "chat.completion.chunk", choices: [{ index: 0, delta, finish_reason: finish }] },
  ];
  const { function: asked, ...call } = chatCall;
  return [
    chunk({
      role: "assistant",
      content: "",
      reasoning: "The user wants the weather.",
      reasoning_details: [details[0]],
    }),
    chunk({ reasoning_details: [details[1]] }),
    chunk({ tool_calls: [{ index: 0, ...call, function: { name: asked.name, arguments: "" } }] }),
    chunk({ tool_calls: [{ index: 0, function: { arguments: ARGUMENTS } }] }),
    chunk({}, "tool_calls"),
    [undefined, { ...chatHead, object: "chat.completion.chunk", choices: [], usage: chatUsage }],
  ];
}

/** A thinking provider for each protocol. */
export const THINKING: Record<ProtocolName, ThinkingVendor> = {
  "anthropic-messages": {
    whole: anthropicMessage,
    stream: anthropicStream(),
    state: (body) =>
      objects(body["messages"])
        .filter(({ role }) => role === "assistant")
        .flatMap(({ content }) => objects(content))
        .filter(({ type }) => String(type).includes("thinking")),
    expected: anthropicContent.filter(({ type }) => type.includes("thinking")),
  },
  "openai-responses": {
    whole: response,
    stream: responsesStream(),
    state: (body) => {
      const items = objects(body["input"]);
      return items.flatMap((item, i) =>
        item["type"] === "reasoning"
          ? [{ summary: item["summary"], encrypted_content: item["encrypted_content"], before: items[i + 1]?.["type"] }]
          : [],
      );
    },
    expected: [{ summary: reasoningItem.summary, encrypted_content: ENCRYPTED, before: "function_call" }],
  },
  gemini: {
    whole: geminiAnswer(geminiParts, "STOP"),
    stream: [
      [undefined, geminiAnswer(geminiParts.slice(0, 1))],
      [undefined, geminiAnswer(geminiParts.slice(1, 2))],
      [undefined, geminiAnswer(geminiParts.slice(2), "STOP")],
    ],
    state: (body) =>
      objects(body["contents"])
        .filter(({ role }) => role === "model")
        .flatMap(({ parts }) => objects(parts))
        .filter((part) => part["functionCall"])
        .map((part) => [
          asText(asObject(asObject(part["functionCall"])?.["args"])?.["city"]),
          part["thoughtSignature"],
        ]),
    expected: [
      ["Oslo", "CiQB0e2Kb/first+call=="],
      ["Paris", undefined],
    ],
  },
  "openai-chat": {
    whole: {
      ...chatHead,
      object: "chat.completion",
      choices: [
        {
          index: 0,
          finish_reason: "tool_calls",
          message: {
            role: "assistant",
            content: "",
            reasoning: "The user wants the weather.",
            reasoning_details: details,
            tool_calls: [chatCall],
          },
        },
      ],
      usage: chatUsage,
    },
    stream: chatStream(),
    state: (body) =>
      objects(body["messages"])
        .filter(({ role }) => role === "assistant")
        .map((message) => [
          message["reasoning_details"],
          objects(message["tool_calls"]).map((call) => call["extra_content"]),
        ]),
    expected: [[details, [chatCall.extra_content]]],
  },
};
