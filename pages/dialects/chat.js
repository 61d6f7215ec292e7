/** OpenAI Chat Completions. */

const content = ({ text, images = [] }) =>
  images.length === 0
    ? text
    : [{ type: "text", text }, ...images.map((url) => ({ type: "image_url", image_url: { url } }))];

export const chat = {
  path: () => "/v1/chat/completions",
  headers: (key) => ({ authorization: `Bearer ${key}` }),
  body: ({ model, system, turns, tools, limit }) => ({
    model,
    stream: true,
    stream_options: { include_usage: true },
    messages: [
      ...(system ? [{ role: "system", content: system }] : []),
      ...turns.map((turn) => ({ role: turn.role, content: content(turn) })),
    ],
    ...(tools.length > 0 ? { tools: tools.map((tool) => ({ type: "function", function: tool })) } : {}),
    ...(limit ? { max_completion_tokens: limit } : {}),
  }),
  read(json) {
    if (json.error) return [{ error: json.error.message ?? String(json.error) }];
    const delta = json.choices?.[0]?.delta ?? {};
    const deltas = [];
    const reasoning = delta.reasoning_content ?? delta.reasoning;
    if (reasoning) deltas.push({ reasoning });
    if (delta.content) deltas.push({ text: delta.content });
    if (delta.refusal) deltas.push({ text: delta.refusal });
    for (const call of delta.tool_calls ?? [])
      deltas.push({ call: { at: call.index ?? 0, name: call.function?.name, json: call.function?.arguments ?? "" } });
    if (json.usage) deltas.push({ usage: { in: json.usage.prompt_tokens, out: json.usage.completion_tokens } });
    return deltas;
  },
};
