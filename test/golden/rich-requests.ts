/** Requests with everything that each protocol documents, in pieces small enough that hardly any vendor refuses one. */
import type { ProtocolName } from "../support/vendor-sdks.ts";

const PNG = "iVBORw0KGgo=";
const PDF = "JVBERi0xLjQ=";
const schema = { type: "object", properties: { a: { type: "string" } }, required: ["a"], additionalProperties: false };

const CHAT = [
  {
    messages: [
      { role: "developer", content: [{ type: "text", text: "Be brief." }], name: "boss" },
      {
        role: "user",
        name: "Ada",
        content: [
          { type: "text", text: "What is it?", cache_control: { type: "ephemeral", ttl: "1h" } },
          { type: "image_url", image_url: { url: `data:image/png;base64,${PNG}`, detail: "low" } },
        ],
      },
    ],
    reasoning_effort: "low",
    verbosity: "low",
    web_search_options: {
      search_context_size: "low",
      user_location: { type: "approximate", approximate: { city: "B" } },
    },
    metadata: { a: "b" },
    safety_identifier: "u",
    prompt_cache_key: "k",
    prompt_cache_retention: "24h",
    moderation: { model: "omni-moderation-latest", policy: { input: { mode: "block" } } },
    stream: true,
    stream_options: { include_usage: true },
  },
  {
    messages: [
      {
        role: "user",
        content: [{ type: "file", file: { file_data: `data:application/pdf;base64,${PDF}`, filename: "a.pdf" } }],
      },
    ],
  },
  { messages: [{ role: "user", content: [{ type: "input_audio", input_audio: { data: "AAAA", format: "wav" } }] }] },
  {
    messages: [
      { role: "user", content: "Hi" },
      {
        role: "assistant",
        content: [
          { type: "text", text: "Well." },
          { type: "refusal", refusal: "No." },
        ],
        tool_calls: [
          { id: "c1", type: "function", function: { name: "f", arguments: '{"a":"b"}' } },
          { id: "c2", type: "custom", custom: { name: "c", input: "x" } },
        ],
      },
      { role: "tool", tool_call_id: "c1", content: [{ type: "text", text: "ok" }] },
      { role: "tool", tool_call_id: "c2", content: "ok" },
    ],
    tools: [
      { type: "function", function: { name: "f", description: "d", parameters: schema, strict: true } },
      {
        type: "custom",
        custom: {
          name: "c",
          description: "d",
          format: { type: "grammar", grammar: { syntax: "lark", definition: "start: /a/" } },
        },
      },
    ],
    tool_choice: {
      type: "allowed_tools",
      allowed_tools: { mode: "required", tools: [{ type: "function", function: { name: "f" } }] },
    },
    response_format: { type: "json_schema", json_schema: { name: "n", description: "d", schema, strict: true } },
  },
  {
    messages: [{ role: "user", content: "Hi" }],
    prediction: { type: "content", content: [{ type: "text", text: "a" }] },
  },
  {
    messages: [
      { role: "user", content: "Hi" },
      { role: "assistant", content: null, function_call: { name: "f", arguments: "{}" } },
      { role: "function", name: "f", content: "ok" },
    ],
    functions: [{ name: "f", description: "d", parameters: schema }],
    function_call: { name: "f" },
  },
];

const RESPONSES = [
  {
    instructions: "Be brief.",
    input: [
      {
        type: "message",
        role: "user",
        content: [
          { type: "input_text", text: "What is it?", prompt_cache_breakpoint: { mode: "explicit" } },
          { type: "input_image", image_url: `data:image/png;base64,${PNG}`, detail: "low" },
        ],
      },
    ],
    reasoning: { effort: "low", summary: "auto" },
    text: { verbosity: "low", format: { type: "json_schema", name: "n", schema, strict: true } },
    metadata: { a: "b" },
    safety_identifier: "u",
    prompt_cache_key: "k",
    prompt_cache_retention: "24h",
    moderation: { model: "omni-moderation-latest", policy: { input: { mode: "block" } } },
    prompt_cache_options: { mode: "implicit", ttl: "12h" },
    stream: true,
    stream_options: { include_obfuscation: false },
  },
  {
    input: [
      {
        role: "user",
        content: [{ type: "input_file", filename: "a.pdf", file_data: `data:application/pdf;base64,${PDF}` }],
      },
    ],
  },
  {
    input: [
      { role: "user", content: [{ type: "input_file", filename: "a.pdf", file_url: "https://a.example/a.pdf" }] },
    ],
  },
  { input: [{ role: "user", content: [{ type: "input_audio", input_audio: { data: "AAAA", format: "wav" } }] }] },
  {
    input: [
      { role: "user", content: "Hi" },
      {
        type: "reasoning",
        summary: [{ type: "summary_text", text: "a" }],
        content: [{ type: "reasoning_text", text: "b" }],
        encrypted_content: "gAAA",
      },
      {
        role: "assistant",
        phase: "commentary",
        content: [
          {
            type: "output_text",
            text: "Well.",
            annotations: [{ type: "url_citation", url: "https://a.example", title: "t", start_index: 0, end_index: 4 }],
          },
        ],
      },
      { type: "function_call", call_id: "c1", name: "f", arguments: '{"a":"b"}' },
      { type: "custom_tool_call", call_id: "c2", name: "c", input: "x" },
      { type: "function_call_output", call_id: "c1", output: [{ type: "input_text", text: "ok" }] },
      { type: "custom_tool_call_output", call_id: "c2", output: "ok" },
      { type: "web_search_call", id: "ws_1", status: "completed", action: { type: "search", query: "q" } },
    ],
    tools: [
      { type: "function", name: "f", description: "d", parameters: schema, strict: true },
      {
        type: "custom",
        name: "c",
        description: "d",
        format: { type: "grammar", syntax: "lark", definition: "start: /a/" },
      },
    ],
    tool_choice: { type: "allowed_tools", mode: "required", tools: [{ type: "function", name: "f" }] },
  },
  {
    input: [
      {
        type: "additional_tools",
        tools: [{ type: "namespace", name: "n", tools: [{ type: "function", name: "g", parameters: schema }] }],
      },
      { role: "user", content: "Hi" },
    ],
    tools: [
      { type: "namespace", name: "m", description: "d", tools: [{ type: "function", name: "f", parameters: schema }] },
    ],
    tool_choice: { type: "function", name: "f" },
  },
  {
    input: "Hi",
    tools: [{ type: "web_search", search_context_size: "low", filters: { allowed_domains: ["a.example"] } }],
    tool_choice: { type: "web_search" },
  },
  { input: "Hi", tools: [{ type: "web_search_preview", user_location: { type: "approximate", city: "B" } }] },
  {
    input: "Hi",
    text: { format: { type: "text" } },
    moderation: { a: 1 },
    context_management: [{ type: "compaction" }],
  },
];

const MESSAGES = [
  {
    system: [{ type: "text", text: "Be brief.", cache_control: { type: "ephemeral", ttl: "1h" } }],
    messages: [
      {
        role: "user",
        content: [
          { type: "text", text: "What is it?", cache_control: { type: "ephemeral" } },
          { type: "image", source: { type: "base64", media_type: "image/png", data: PNG } },
          {
            type: "document",
            source: { type: "base64", media_type: "application/pdf", data: PDF },
            title: "t",
            context: "c",
            citations: { enabled: true },
          },
          { type: "document", source: { type: "text", media_type: "text/plain", data: "a" } },
        ],
      },
    ],
    thinking: { type: "enabled", budget_tokens: 1024, display: "summarized" },
    metadata: { user_id: "u" },
    output_config: { format: { type: "json_schema", schema } },
    service_tier: "auto",
  },
  {
    messages: [
      {
        role: "user",
        content: [{ type: "document", source: { type: "content", content: [{ type: "text", text: "a" }] } }],
      },
    ],
  },
  {
    messages: [{ role: "user", content: [{ type: "image", source: { type: "url", url: "https://a.example/a.png" } }] }],
  },
  {
    messages: [
      { role: "user", content: "Hi" },
      {
        role: "assistant",
        content: [
          { type: "thinking", thinking: "a", signature: "c2ln" },
          { type: "redacted_thinking", data: "c2ln" },
          {
            type: "text",
            text: "Well.",
            citations: [
              {
                type: "web_search_result_location",
                url: "https://a.example",
                title: "t",
                cited_text: "q",
                encrypted_index: "e",
              },
            ],
          },
          { type: "tool_use", id: "toolu_1", name: "f", input: { a: { b: [] } }, caller: { type: "direct" } },
        ],
      },
      {
        role: "user",
        content: [
          {
            type: "tool_result",
            tool_use_id: "toolu_1",
            is_error: true,
            cache_control: { type: "ephemeral" },
            content: [
              { type: "text", text: "bad" },
              { type: "image", source: { type: "base64", media_type: "image/png", data: PNG } },
            ],
          },
        ],
      },
    ],
    tools: [{ name: "f", description: "d", input_schema: schema, strict: true, cache_control: { type: "ephemeral" } }],
    tool_choice: { type: "tool", name: "f", disable_parallel_tool_use: true },
  },
  {
    messages: [{ role: "user", content: "Hi" }],
    tools: [
      {
        type: "web_search_20250305",
        name: "web_search",
        max_uses: 3,
        user_location: { type: "approximate", city: "B" },
      },
    ],
    tool_choice: { type: "any" },
    cache_control: { type: "ephemeral" },
    context_management: { edits: [{ type: "clear_tool_uses_20250919", trigger: { type: "input_tokens", value: 1 } }] },
  },
  { messages: [{ role: "user", content: "Hi" }], thinking: { type: "adaptive" }, output_config: { effort: "low" } },
  { messages: [{ role: "user", content: "Hi" }], thinking: { type: "disabled" } },
];

const GEMINI = [
  {
    systemInstruction: { role: "user", parts: [{ text: "Be brief." }] },
    contents: [
      {
        role: "user",
        parts: [
          { text: "What is it?" },
          { inlineData: { mimeType: "image/png", data: PNG, displayName: "a" } },
          { inlineData: { mimeType: "application/pdf", data: PDF } },
        ],
      },
    ],
    generationConfig: {
      temperature: 0.5,
      maxOutputTokens: 100,
      thinkingConfig: { includeThoughts: true, thinkingBudget: 1024 },
      responseMimeType: "application/json",
      responseJsonSchema: schema,
    },
    safetySettings: [{ category: "HARM_CATEGORY_HARASSMENT", threshold: "BLOCK_ONLY_HIGH" }],
    labels: { a: "b" },
  },
  {
    contents: [
      {
        parts: [
          {
            fileData: { mimeType: "image/png", fileUri: "https://a.example/a.png" },
            mediaResolution: { level: "MEDIA_RESOLUTION_LOW" },
          },
        ],
      },
    ],
  },
  {
    contents: [{ parts: [{ text: "Hi" }] }],
    generationConfig: {
      responseSchema: { type: "OBJECT", properties: { a: { type: "STRING" } } },
      responseMimeType: "application/json",
    },
  },
  {
    contents: [{ parts: [{ text: "Hi" }] }],
    generationConfig: {
      speechConfig: { voiceConfig: { prebuiltVoiceConfig: { voiceName: "Kore" } } },
      imageConfig: { aspectRatio: "1:1" },
    },
  },
  {
    contents: [
      { role: "user", parts: [{ text: "Hi" }] },
      {
        role: "model",
        parts: [
          { text: "Hm.", thought: true, thoughtSignature: "c2ln" },
          { text: "Well.", partMetadata: { a: 1 } },
          { functionCall: { id: "c1", name: "f", args: { a: { b: [{}] } } }, thoughtSignature: "c2ln" },
        ],
      },
      {
        role: "user",
        parts: [
          {
            functionResponse: {
              id: "c1",
              name: "f",
              response: { output: { a: {} } },
              parts: [{ inlineData: { mimeType: "image/png", data: PNG } }],
            },
          },
        ],
      },
    ],
    tools: [
      {
        functionDeclarations: [
          {
            name: "f",
            description: "d",
            parametersJsonSchema: schema,
            response: { type: "OBJECT" },
            behavior: "BLOCKING",
          },
          { name: "g", parameters: { type: "OBJECT", properties: { a: { type: "STRING", nullable: true } } } },
        ],
      },
    ],
    toolConfig: { functionCallingConfig: { mode: "ANY", allowedFunctionNames: ["f"] } },
  },
  {
    contents: [{ parts: [{ text: "Hi" }] }],
    tools: [
      { googleSearch: { excludeDomains: ["a.example"], timeRangeFilter: { startTime: "2026-01-01T00:00:00Z" } } },
    ],
    toolConfig: { retrievalConfig: { latLng: { latitude: 1, longitude: 2 } } },
  },
  { contents: [{ parts: [{ text: "Hi" }] }], tools: [{ googleSearch: {} }] },
];

export const RICH_REQUESTS: Readonly<Record<ProtocolName, readonly object[]>> = {
  "openai-chat": CHAT.map((members) => ({ model: "any", ...members })),
  "openai-responses": RESPONSES.map((members) => ({ model: "any", ...members })),
  "anthropic-messages": MESSAGES.map((members) => ({ model: "any", max_tokens: 4096, ...members })),
  gemini: GEMINI,
};
