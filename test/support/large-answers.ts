import type { ProtocolName } from "./vendor-sdks.ts";

/** What makes an answer large: each a list of texts, calls (their arguments) and images (base64). */
export interface Content {
  readonly texts?: readonly string[];
  readonly calls?: readonly string[];
  readonly images?: readonly string[];
}

const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 };

/** Returns a whole answer with this content as a vendor writes it. Messages have no images. */
export const WHOLE: Record<ProtocolName, (content: Content) => object> = {
  "openai-chat": ({ texts = [], calls = [], images = [] }) => ({
    id: "c",
    object: "chat.completion",
    created: 1,
    model: "m",
    choices: [
      {
        index: 0,
        message: {
          role: "assistant",
          content: texts.length > 1 ? texts.map((text) => ({ type: "text", text })) : (texts[0] ?? null),
          ...(calls.length > 0 && {
            tool_calls: calls.map((json, i) => ({
              id: `call_${i}`,
              type: "function",
              function: { name: "f", arguments: json },
            })),
          }),
          ...(images.length > 0 && {
            images: images.map((data) => ({ type: "image_url", image_url: { url: `data:image/png;base64,${data}` } })),
          }),
        },
        finish_reason: calls.length > 0 ? "tool_calls" : "stop",
      },
    ],
    usage,
  }),
  "openai-responses": ({ texts = [], calls = [], images = [] }) => ({
    id: "resp_1",
    object: "response",
    created_at: 1,
    status: "completed",
    model: "m",
    output: [
      ...texts.map((text, i) => ({
        type: "message",
        id: `msg_${i}`,
        status: "completed",
        role: "assistant",
        content: [{ type: "output_text", text, annotations: [] }],
      })),
      ...calls.map((json, i) => ({
        type: "function_call",
        id: `fc_${i}`,
        call_id: `call_${i}`,
        name: "f",
        arguments: json,
      })),
      ...images.map((result, i) => ({ type: "image_generation_call", id: `ig_${i}`, status: "completed", result })),
    ],
    usage: { input_tokens: 3, output_tokens: 2, total_tokens: 5 },
  }),
  "anthropic-messages": ({ texts = [], calls = [] }) => ({
    id: "msg_1",
    type: "message",
    role: "assistant",
    model: "m",
    content: [
      ...texts.map((text) => ({ type: "text", text })),
      ...calls.map((json, i) => ({ type: "tool_use", id: `call_${i}`, name: "f", input: JSON.parse(json) })),
    ],
    stop_reason: calls.length > 0 ? "tool_use" : "end_turn",
    stop_sequence: null,
    usage: { input_tokens: 3, output_tokens: 2 },
  }),
  gemini: ({ texts = [], calls = [], images = [] }) => ({
    responseId: "r",
    modelVersion: "m",
    candidates: [
      {
        content: {
          role: "model",
          parts: [
            ...texts.map((text) => ({ text })),
            ...calls.map((json, i) => ({ functionCall: { id: `call_${i}`, name: "f", args: JSON.parse(json) } })),
            ...images.map((data) => ({ inlineData: { mimeType: "image/png", data } })),
          ],
        },
        finishReason: "STOP",
        index: 0,
      },
    ],
    usageMetadata: { promptTokenCount: 3, candidatesTokenCount: 2, totalTokenCount: 5 },
  }),
};
