/** Anthropic Messages. */

import { partsOf } from "./data-url.js";

/** The protocol requires a number; models with a lower maximum report it. */
const DEFAULT_MAX_TOKENS = 4096;

const content = ({ text, images = [] }) => [
  ...images.map((url) => {
    const { type, base64 } = partsOf(url);
    return { type: "image", source: { type: "base64", media_type: type, data: base64 } };
  }),
  { type: "text", text },
];

export const messages = {
  path: () => "/v1/messages",
  headers: (key) => ({ "x-api-key": key, "anthropic-version": "2023-06-01" }),
  body: ({ model, system, turns, tools, limit }) => ({
    model,
    stream: true,
    max_tokens: limit || DEFAULT_MAX_TOKENS,
    ...(system ? { system } : {}),
    messages: turns.map((turn) => ({ role: turn.role, content: content(turn) })),
    ...(tools.length > 0
      ? { tools: tools.map(({ name, description, parameters }) => ({ name, description, input_schema: parameters })) }
      : {}),
  }),
  read(json) {
    switch (json.type) {
      case "message_start":
        return [{ usage: inOf(json.message?.usage) }];
      case "content_block_start":
        return json.content_block?.type === "tool_use"
          ? [{ call: { at: json.index, name: json.content_block.name, json: "" } }]
          : [];
      case "content_block_delta": {
        const { delta = {} } = json;
        if (delta.type === "text_delta") return [{ text: delta.text }];
        if (delta.type === "thinking_delta") return [{ reasoning: delta.thinking }];
        return delta.type === "input_json_delta" ? [{ call: { at: json.index, json: delta.partial_json } }] : [];
      }
      case "message_delta":
        return [{ usage: { ...inOf(json.usage), out: json.usage?.output_tokens } }];
      case "error":
        return [{ error: json.error?.message ?? "The answer failed." }];
      default:
        return [];
    }
  },
};

/** Tokens read from and written to the cache are reported separately from `input_tokens`. */
function inOf(usage) {
  if (usage?.input_tokens === undefined || usage.input_tokens === null) return {};
  return { in: usage.input_tokens + (usage.cache_read_input_tokens ?? 0) + (usage.cache_creation_input_tokens ?? 0) };
}
