/** OpenAI Responses. */

const content = ({ role, text, images = [] }) => [
  { type: role === "assistant" ? "output_text" : "input_text", text },
  ...images.map((url) => ({ type: "input_image", image_url: url })),
];

export const responses = {
  path: () => "/v1/responses",
  headers: (key) => ({ authorization: `Bearer ${key}` }),
  body: ({ model, system, turns, tools, limit }) => ({
    model,
    stream: true,
    store: false,
    ...(system ? { instructions: system } : {}),
    input: turns.map((turn) => ({ role: turn.role, content: content(turn) })),
    ...(tools.length > 0 ? { tools: tools.map((tool) => ({ type: "function", strict: false, ...tool })) } : {}),
    ...(limit ? { max_output_tokens: limit } : {}),
  }),
  read(json) {
    switch (json.type) {
      case "response.output_text.delta":
      case "response.refusal.delta":
        return [{ text: json.delta }];
      case "response.reasoning_summary_text.delta":
      case "response.reasoning_text.delta":
        return [{ reasoning: json.delta }];
      case "response.output_item.added":
        return json.item?.type === "function_call"
          ? [{ call: { at: json.output_index, name: json.item.name, json: "" } }]
          : [];
      case "response.function_call_arguments.delta":
        return [{ call: { at: json.output_index, json: json.delta } }];
      case "response.completed":
      case "response.incomplete": {
        const { usage } = json.response ?? {};
        return usage ? [{ usage: { in: usage.input_tokens, out: usage.output_tokens } }] : [];
      }
      case "response.failed":
        return [{ error: json.response?.error?.message ?? "The answer failed." }];
      case "error":
        return [{ error: json.message ?? json.error?.message ?? "The answer failed." }];
      default:
        return json.error ? [{ error: json.error.message ?? String(json.error) }] : [];
    }
  },
};
