import { type JsonObject } from "../../src/wire/values.ts";
import type { SeenRequest } from "./upstream.ts";
import type { ProtocolName } from "./vendor-sdks.ts";

/** The response of a scripted provider: a text, a call of the tool `f`, the same without arguments, a textual refusal. */
export type AnswerKind = "text" | "call" | "bare-call" | "refusal";

/** The text, in the pieces of its stream. */
export const PIECES = ["Hel", "lo ", "you."] as const;
export const TEXT = PIECES.join("");
export const REFUSAL = "I cannot help with that.";
/** Tokens of every response: 21 in, of which 8 are cached, and 9 out. */
export const TOKENS = { in: 21, cached: 8, out: 9 } as const;

const ARGUMENTS: Record<AnswerKind, string> = { text: "", call: '{"city":"Rome"}', "bare-call": "", refusal: "" };
const isCall = (answer: AnswerKind): boolean => answer === "call" || answer === "bare-call";
const piecesOf = (answer: AnswerKind): readonly string[] =>
  answer === "text" ? PIECES : answer === "refusal" ? [REFUSAL] : [];
const frame = (value: JsonObject): string =>
  `${value["type"] === undefined ? "" : `event: ${value["type"]}\n`}data: ${JSON.stringify(value)}\n\n`;

/** A provider's response in its protocol, as frames of a stream and as one body. */
interface Script {
  frames(answer: AnswerKind): string[];
  whole(answer: AnswerKind): JsonObject;
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
const chatCall = (answer: AnswerKind) => ({
  id: "call_1",
  type: "function",
  function: { name: "f", arguments: ARGUMENTS[answer] },
});

const chat: Script = {
  frames(answer) {
    const member = answer === "refusal" ? "refusal" : "content";
    const calls = isCall(answer) ? [chatChunk({ tool_calls: [{ index: 0, ...chatCall(answer) }] })] : [];
    return [
      chatChunk({ role: "assistant" }),
      ...piecesOf(answer).map((piece) => chatChunk({ [member]: piece })),
      ...calls,
      chatChunk({}, isCall(answer) ? "tool_calls" : "stop"),
      frame({ ...chatBase("chat.completion.chunk"), choices: [], usage: CHAT_USAGE }),
      "data: [DONE]\n\n",
    ];
  },
  whole(answer) {
    const message = {
      role: "assistant",
      content: answer === "text" ? TEXT : null,
      refusal: answer === "refusal" ? REFUSAL : null,
      ...(isCall(answer) ? { tool_calls: [chatCall(answer)] } : {}),
    };
    const finish_reason = isCall(answer) ? "tool_calls" : "stop";
    return { ...chatBase("chat.completion"), choices: [{ index: 0, message, finish_reason }], usage: CHAT_USAGE };
  },
};

const responsesItem = (answer: AnswerKind): JsonObject =>
  isCall(answer)
    ? {
        id: "fc_1",
        type: "function_call",
        status: "completed",
        call_id: "call_1",
        name: "f",
        arguments: ARGUMENTS[answer],
      }
    : { id: "msg_1", type: "message", status: "completed", role: "assistant", content: [responsesPart(answer)] };
const responsesPart = (answer: AnswerKind): JsonObject =>
  answer === "refusal"
    ? { type: "refusal", refusal: REFUSAL }
    : { type: "output_text", text: TEXT, annotations: [], logprobs: [] };

const responses: Script = {
  frames(answer) {
    const end = responses.whole(answer);
    const open = { ...end, status: "in_progress", output: [], usage: null };
    const item = responsesItem(answer);
    const at = { item_id: item["id"], output_index: 0 };
    const within = isCall(answer) ? [] : messageEvents(answer, { ...at, content_index: 0 });
    const empty = isCall(answer) ? { arguments: "" } : { content: [] };
    const events: JsonObject[] = [
      { type: "response.created", response: open },
      { type: "response.output_item.added", output_index: 0, item: { ...item, status: "in_progress", ...empty } },
      ...(answer === "call" ? [{ type: "response.function_call_arguments.delta", ...at, delta: ARGUMENTS.call }] : []),
      ...(isCall(answer)
        ? [{ type: "response.function_call_arguments.done", ...at, arguments: ARGUMENTS[answer] }]
        : []),
      ...within,
      { type: "response.output_item.done", output_index: 0, item },
      { type: "response.completed", response: end },
    ];
    return events.map((event, sequence_number) => frame({ ...event, sequence_number }));
  },
  whole: (answer) => ({
    id: "resp_1",
    object: "response",
    created_at: 1_790_000_000,
    status: "completed",
    model: "vendor",
    output: [responsesItem(answer)],
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

function messageEvents(answer: AnswerKind, at: JsonObject): JsonObject[] {
  const kind = answer === "refusal" ? "refusal" : "output_text";
  const part = responsesPart(answer);
  const member = answer === "refusal" ? "refusal" : "text";
  return [
    { type: "response.content_part.added", ...at, part: { ...part, [member]: "" } },
    ...piecesOf(answer).map((delta) => ({ type: `response.${kind}.delta`, ...at, delta })),
    { type: `response.${kind}.done`, ...at, [member]: part[member] },
    { type: "response.content_part.done", ...at, part },
  ];
}

const MESSAGE_USAGE = { input_tokens: TOKENS.in - TOKENS.cached, cache_read_input_tokens: TOKENS.cached };
const stopReason = (answer: AnswerKind): string =>
  isCall(answer) ? "tool_use" : answer === "refusal" ? "refusal" : "end_turn";

const messages: Script = {
  frames(answer) {
    const message = { ...messages.whole(answer), content: [], stop_reason: null };
    const block = isCall(answer)
      ? { type: "tool_use", id: "toolu_1", name: "f", input: {} }
      : { type: "text", text: "" };
    const deltas = isCall(answer)
      ? [{ type: "input_json_delta", partial_json: ARGUMENTS[answer] }]
      : piecesOf(answer).map((text) => ({ type: "text_delta", text }));
    return [
      { type: "message_start", message: { ...message, usage: { ...MESSAGE_USAGE, output_tokens: 1 } } },
      { type: "content_block_start", index: 0, content_block: block },
      ...deltas.map((delta) => ({ type: "content_block_delta", index: 0, delta })),
      { type: "content_block_stop", index: 0 },
      {
        type: "message_delta",
        delta: { stop_reason: stopReason(answer), stop_sequence: null },
        usage: { output_tokens: TOKENS.out },
      },
      { type: "message_stop" },
    ].map(frame);
  },
  whole: (answer) => ({
    id: "msg_1",
    type: "message",
    role: "assistant",
    model: "vendor",
    content: isCall(answer)
      ? [{ type: "tool_use", id: "toolu_1", name: "f", input: JSON.parse(ARGUMENTS[answer] || "{}") as JsonObject }]
      : [{ type: "text", text: piecesOf(answer).join("") }],
    stop_reason: stopReason(answer),
    stop_sequence: null,
    usage: { ...MESSAGE_USAGE, output_tokens: TOKENS.out },
  }),
};

const geminiPart = (answer: AnswerKind, text: string): JsonObject =>
  isCall(answer)
    ? { functionCall: { name: "f", ...(answer === "call" ? { args: JSON.parse(ARGUMENTS.call) as JsonObject } : {}) } }
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
const geminiEnd = (answer: AnswerKind): string => (answer === "refusal" ? "SAFETY" : "STOP");

const gemini: Script = {
  frames(answer) {
    const pieces = isCall(answer) ? [""] : piecesOf(answer);
    return pieces.map((piece, i) =>
      frame(geminiChunk([geminiPart(answer, piece)], i === pieces.length - 1 ? geminiEnd(answer) : undefined)),
    );
  },
  whole: (answer) => geminiChunk([geminiPart(answer, piecesOf(answer).join(""))], geminiEnd(answer)),
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
