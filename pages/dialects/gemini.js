/** Gemini generateContent. */

import { partsOf } from "./data-url.js";

const parts = ({ text, images = [] }) => [
  { text },
  ...images.map((url) => {
    const { type, base64 } = partsOf(url);
    return { inlineData: { mimeType: type, data: base64 } };
  }),
];

export const gemini = {
  path: (model) => `/v1beta/models/${model}:streamGenerateContent?alt=sse`,
  headers: (key) => ({ "x-goog-api-key": key }),
  body: ({ system, turns, tools, limit, thinks }) => ({
    contents: turns.map((turn) => ({ role: turn.role === "assistant" ? "model" : "user", parts: parts(turn) })),
    ...(system ? { systemInstruction: { parts: [{ text: system }] } } : {}),
    ...(tools.length > 0
      ? {
          tools: [
            {
              functionDeclarations: tools.map(({ name, description, parameters }) => ({
                name,
                description,
                parametersJsonSchema: parameters,
              })),
            },
          ],
        }
      : {}),
    ...(limit || thinks
      ? {
          generationConfig: {
            ...(limit ? { maxOutputTokens: limit } : {}),
            ...(thinks ? { thinkingConfig: { includeThoughts: true } } : {}),
          },
        }
      : {}),
  }),
  read(json) {
    if (json.error) return [{ error: json.error.message ?? String(json.error) }];
    const deltas = [];
    for (const [at, part] of (json.candidates?.[0]?.content?.parts ?? []).entries()) {
      if (part.functionCall)
        deltas.push({
          call: {
            at: `${json.responseId}/${at}/${part.functionCall.name}`,
            name: part.functionCall.name,
            json: JSON.stringify(part.functionCall.args ?? {}),
          },
        });
      else if (part.text) deltas.push(part.thought ? { reasoning: part.text } : { text: part.text });
    }
    const { usageMetadata: usage } = json;
    if (usage)
      deltas.push({
        usage: { in: usage.promptTokenCount, out: (usage.candidatesTokenCount ?? 0) + (usage.thoughtsTokenCount ?? 0) },
      });
    return deltas;
  },
};
