import { type JsonObject } from "../../src/wire/values.ts";
import type { SeenRequest } from "./upstream.ts";
import type { ProtocolName } from "./vendor-sdks.ts";

/** The response of a scripted provider: a text, a call of the tool `f`, the same without arguments, a textual refusal. */
export type Line = "text" | "call" | "bare-call" | "refusal";

/** The text, in the pieces of its stream. */
export const PIECES = ["Hel", "lo ", "you."] as const;
export const TEXT = PIECES.join("");
export const REFUSAL = "I cannot help with that.";
/** Tokens of every response: 21 in, of which 8 are cached, and 9 out. */
export const TOKENS = { in: 21, cached: 8, out: 9 } as const;

const ARGUMENTS: Record<Line, string> = { text: "", call: '{"city":"Rome"}', "bare-call": "", refusal: "" };
const isCall = (line: Line): boolean => line === "call" || line === "bare-call";
const piecesOf = (line: Line): readonly string[] => (line === "text" ? PIECES : line === "refusal" ? [REFUSAL] : []);
const frame = (value: JsonObject): string =>
  `${value["type"] === undefined ? "" : `event: ${value["type"]}\n`}data: ${JSON.stringify(value)}\n\n`;

/** A provider's response in its protocol, as frames of a stream and as one body. */
interface Script {
  frames(line: Line): string[];
  whole(line: Line): JsonObject;
}

const CHAT_USAGE = {
  prompt_tokens: TOKENS.in,
  completion_tokens: TOKENS.out,
  total_tokens: TOKENS.in + TOKENS.out,
  prompt_tokens_details: { cached_tokens: TOKENS.cached },
};
const chatBase = (object: string) => ({ id: "chatcmpl-1", object, created: 1_790_000_000, model: "vendor" });
const chatChunk = (delta: JsonObject, finish_reason: string | null = null): string =>
  frame({ ...chatBase("chat.completion.chunk"), choices: [{ index: 0, delta, finish_reason }] });
const chatCall = (line: Line) => ({
  id: "call_1",
  type: "function",
  function: { name: "f", arguments: ARGUMENTS[line] },
});

const chat: Script = {
  frames(line) {
    const member = line === "refusal" ? "refusal" : "content";
    const calls = isCall(line) ? [chatChunk({ tool_calls: [{ index: 0, ...chatCall(line) }] })] : [];
    return [
      chatChunk({ role: "assistant" }),
      ...piecesOf(line).map((piece) => chatChunk({ [member]: piece })),
      ...calls,
      chatChunk({}, isCall(line) ? "tool_calls" : "stop"),
      frame({ ...chatBase("chat.completion.chunk"), choices: [], usage: CHAT_USAGE }),
      "data: [DONE]\n\n",
    ];
  },
  whole(line) {
    const message = {
      role: "assistant",
      content: line === "text" ? TEXT : null,
      refusal: line === "refusal" ? REFUSAL : null,
      ...(isCall(line) ? { tool_calls: [chatCall(line)] } : {}),
    };
    const finish_reason = isCall(line) ? "tool_calls" : "stop";
    return { ...chatBase("chat.completion"), choices: [{ index: 0, message, finish_reason }], usage: CHAT_USAGE };
  },
};

const responsesItem = (line: Line): JsonObject =>
  isCall(line)
    ? {
        id: "fc_1",
        type: "function_call",
        status: "completed",
        call_id: "call_1",
        name: "f",
        arguments: ARGUMENTS[line],
      }
    : { id: "msg_1", type: "message", status: "completed", role: "assistant", content: [responsesPart(line)] };
const responsesPart = (line: Line): JsonObject =>
  line === "refusal"
    ? { type: "refusal", refusal: REFUSAL }
    : { type: "output_text", text: TEXT, annotations: [], logprobs: [] };

const responses: Script = {
  frames(line) {
    const end = responses.whole(line);
    const open = { ...end, status: "in_progress", output: [], usage: null };
    const item = responsesItem(line);
    const at = { item_id: item["id"], output_index: 0 };
    const within = isCall(line) ? [] : messageEvents(line, { ...at, content_index: 0 });
    const empty = isCall(line) ? { arguments: "" } : { content: [] };
    const events: JsonObject[] = [
      { type: "response.created", response: open },
      { type: "response.output_item.added", output_index: 0, item: { ...item, status: "in_progress", ...empty } },
      ...(line === "call" ? [{ type: "response.function_call_arguments.delta", ...at, delta: ARGUMENTS.call }] : []),
      ...(isCall(line) ? [{ type: "response.function_call_arguments.done", ...at, arguments: ARGUMENTS[line] }] : []),
      ...within,
      { type: "response.output_item.done", output_index: 0, item },
      { type: "response.completed", response: end },
    ];
    return events.map((event, sequence_number) => frame({ ...event, sequence_number }));
  },
  whole: (line) => ({
    id: "resp_1",
    object: "response",
    created_at: 1_790_000_000,
    status: "completed",
    model: "vendor",
    output: [responsesItem(line)],
    error: null,
    incomplete_details: null,
    usage: {
      input_tokens: TOKENS.in,
      input_tokens_details: { cached_tokens: TOKENS.cached },
      output_tokens: TOKENS.out,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: TOKENS.in + TOKENS.out,
    },
  }),
};

function messageEvents(line: Line, at: JsonObject): JsonObject[] {
  const kind = line === "refusal" ? "refusal" : "output_text";
  const part = responsesPart(line);
  const member = line === "refusal" ? "refusal" : "text";
  return [
    { type: "response.content_part.added", ...at, part: { ...part, [member]: "" } },
    ...piecesOf(line).map((delta) => ({ type: `response.${kind}.delta`, ...at, delta })),
    { type: `response.${kind}.done`, ...at, [member]: part[member] },
    { type: "response.content_part.done", ...at, part },
  ];
}

const MESSAGE_USAGE = { input_tokens: TOKENS.in - TOKENS.cached, cache_read_input_tokens: TOKENS.cached };
const stopReason = (line: Line): string => (isCall(line) ? "tool_use" : line === "refusal" ? "refusal" : "end_turn");

const messages: Script = {
  frames(line) {
    const message = { ...messages.whole(line), content: [], stop_reason: null };
    const block = isCall(line) ? { type: "tool_use", id: "toolu_1", name: "f", input: {} } : { type: "text", text: "" };
    const deltas = isCall(line)
      ? [{ type: "input_json_delta", partial_json: ARGUMENTS[line] }]
      : piecesOf(line).map((text) => ({ type: "text_delta", text }));
    return [
      { type: "message_start", message: { ...message, usage: { ...MESSAGE_USAGE, output_tokens: 1 } } },
      { type: "content_block_start", index: 0, content_block: block },
      ...deltas.map((delta) => ({ type: "content_block_delta", index: 0, delta })),
      { type: "content_block_stop", index: 0 },
      {
        type: "message_delta",
        delta: { stop_reason: stopReason(line), stop_sequence: null },
        usage: { output_tokens: TOKENS.out },
      },
      { type: "message_stop" },
    ].map(frame);
  },
  whole: (line) => ({
    id: "msg_1",
    type: "message",
    role: "assistant",
    model: "vendor",
    content: isCall(line)
      ? [{ type: "tool_use", id: "toolu_1", name: "f", input: JSON.parse(ARGUMENTS[line] || "{}") as JsonObject }]
      : [{ type: "text", text: piecesOf(line).join("") }],
    stop_reason: stopReason(line),
    stop_sequence: null,
    usage: { ...MESSAGE_USAGE, output_tokens: TOKENS.out },
  }),
};

const geminiPart = (line: Line, text: string): JsonObject =>
  isCall(line)
    ? { functionCall: { name: "f", ...(line === "call" ? { args: JSON.parse(ARGUMENTS.call) as JsonObject } : {}) } }
    : { text };
const geminiChunk = (parts: JsonObject[], finishReason?: string): JsonObject => ({
  candidates: [{ index: 0, content: { role: "model", parts }, ...(finishReason ? { finishReason } : {}) }],
  usageMetadata: {
    promptTokenCount: TOKENS.in,
    cachedContentTokenCount: TOKENS.cached,
    candidatesTokenCount: TOKENS.out,
    totalTokenCount: TOKENS.in + TOKENS.out,
  },
  modelVersion: "vendor",
  responseId: "r1",
});
const geminiEnd = (line: Line): string => (line === "refusal" ? "SAFETY" : "STOP");

const gemini: Script = {
  frames(line) {
    const pieces = isCall(line) ? [""] : piecesOf(line);
    return pieces.map((piece, i) =>
      frame(geminiChunk([geminiPart(line, piece)], i === pieces.length - 1 ? geminiEnd(line) : undefined)),
    );
  },
  whole: (line) => geminiChunk([geminiPart(line, piecesOf(line).join(""))], geminiEnd(line)),
};

/** The script of each protocol. */
export const SCRIPTS: Readonly<Record<ProtocolName, Script>> = {
  "openai-chat": chat,
  "openai-responses": responses,
  "anthropic-messages": messages,
  gemini,
};

/** Returns the protocol of a request to a provider, and whether it asks for a stream. */
export function askedIn({ url, body }: SeenRequest): { vendor: ProtocolName; stream: boolean } {
  if (url.includes(":")) return { vendor: "gemini", stream: url.includes(":stream") };
  const { stream = false } = JSON.parse(body.toString()) as { stream?: boolean };
  const vendor = url.includes("/chat/")
    ? "openai-chat"
    : url.includes("/responses")
      ? "openai-responses"
      : "anthropic-messages";
  return { vendor, stream };
}

/** The state that a provider requires to continue from its thoughts: a signature, encrypted content or the like. */
export const STATE = "gAAAAABzdGF0ZSBvZiB0aG91Z2h0cw==";
export const THOUGHT = "Hm, a greeting.";

/** A complete response of thoughts and the text, with the state that its provider requires to continue. */
export const THOUGHTFUL: Readonly<Record<ProtocolName, JsonObject>> = {
  "openai-chat": {
    ...chatBase("chat.completion"),
    choices: [
      { index: 0, message: { role: "assistant", content: TEXT, reasoning_content: THOUGHT }, finish_reason: "stop" },
    ],
  },
  "openai-responses": {
    ...responses.whole("text"),
    output: [
      {
        id: "rs_1",
        type: "reasoning",
        summary: [{ type: "summary_text", text: THOUGHT }],
        content: null,
        encrypted_content: STATE,
      },
      responsesItem("text"),
    ],
  },
  "anthropic-messages": {
    ...messages.whole("text"),
    content: [
      { type: "thinking", thinking: THOUGHT, signature: STATE },
      { type: "text", text: TEXT },
    ],
  },
  gemini: geminiChunk(
    [
      { text: THOUGHT, thought: true },
      { text: TEXT, thoughtSignature: STATE },
    ],
    "STOP",
  ),
};
