/**
 * Requests recorded from coding agents, with the newest and oddest features of each protocol; the model is called `asked`,
 * whitespace and escapes are unusual, and numbers have more digits than a double.
 */
export const CLIENT_BODIES = {
  "openai-chat": {
    path: "/v1/chat/completions",
    headers: { "openai-beta": "assistants=v2", "x-stainless-os": "Linux" },
    body: `{ "messages":[{"role":"developer","content":"Be brief."},{"role":"system","content":[{"type":"text","text":"S\\u00fc\\/ss"}]},
      {"role":"user","content":"One"},{"role":"user","content":[{"type":"text","text":"Two"},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBO","detail":"low"}}]},
      {"role":"assistant","content":null,"reasoning_content":"Hm.","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]},
      {"role":"tool","tool_call_id":"c1","content":"ok"}], "model" : "asked", "max_tokens":5,"max_completion_tokens":5,"store":false,
      "seed":12345678901234567890,"metadata":{"a":"b"},"prompt_cache_key":"k","safety_identifier":"s","verbosity":"low","user":"u1","unheard_of":{"deep":[1.10]}}`,
  },
  "openai-responses": {
    path: "/v1/responses",
    headers: {
      originator: "codex_exec",
      session_id: "s1",
      "x-codex-turn-metadata": "{}",
      "x-openai-internal-codex-responses-lite": "true",
    },
    body: `{"model":"asked","store":false,"include":["reasoning.encrypted_content"],"prompt_cache_key":"k","client_metadata":{"session_id":"s1"},
      "tool_choice":"auto","parallel_tool_calls":false,"reasoning":{"effort":"medium","context":"all_turns"},"text":{"verbosity":"low"},
      "tools":[{"type":"web_search"},{"type":"tool_search"},{"type":"custom","name":"apply_patch","format":{"type":"grammar","syntax":"lark","definition":"start: /.+/"}}],
      "input":[{"type":"additional_tools","id":"at_1","role":"developer","tools":[{"type":"namespace","name":"functions","tools":[{"type":"custom","name":"exec"}]}]},
      {"type":"message","role":"developer","content":[{"type":"input_text","text":"You are an agent"}]},
      {"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"gAAAA=="},{"type":"item_reference","id":"rs_0"},
      {"type":"custom_tool_call","call_id":"c1","name":"exec","namespace":"functions","input":"ls"},
      {"type":"custom_tool_call_output","call_id":"c1","output":[{"type":"input_text","text":"a"},{"type":"input_image","image_url":"data:image/png;base64,iVBO"}]},
      {"type":"compaction_trigger"}]}`,
  },
  "anthropic-messages": {
    path: "/v1/messages?beta=true",
    headers: {
      "anthropic-version": "2023-06-01",
      "anthropic-beta": "claude-code-20250219,mid-conversation-tool-changes-2026-07-01,never-heard-of-2031-01-01",
      "x-app": "cli",
      "x-claude-code-session-id": "s1",
    },
    body: `{"model":"asked","max_tokens":32000,"thinking":{"type":"adaptive","display":"omitted"},"output_config":{"effort":"high"},
      "context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]},"metadata":{"user_id":"{\\"session_id\\":\\"y\\"}"},
      "system":[{"type":"text","text":"x-anthropic-billing-header: cc_version=2.1.329.c9e;"},{"type":"text","text":"You are.","cache_control":{"type":"ephemeral","ttl":"1h"}}],
      "tools":[{"name":"Cron","input_schema":{"type":"object","properties":{}},"defer_loading":true},{"name":"Search","input_schema":{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object"},"eager_input_streaming":true},{"type":"web_search_20250305","name":"web_search"}],
      "messages":[{"role":"user","content":"find"},{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"c2ln"},{"type":"tool_use","id":"toolu_1","name":"Search","input":{"big":12345678901234567890}}]},
      {"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":[{"type":"tool_reference","tool_name":"Cron"}]}]},
      {"role":"system","content":[{"type":"text","text":"# Environment","cache_control":{"type":"ephemeral"}}]}]}`,
  },
  gemini: {
    path: "/v1beta/models/asked:generateContent",
    headers: { "x-goog-api-client": "google-genai-sdk/3.1.0 gl-node/v26", "x-server-timeout": "60" },
    body: `{"contents":[{"role":"user","parts":[{"text":"Hi"}]},{"role":"model","parts":[{"functionCall":{"id":"a1","name":"f","args":{"x":1.10}},"thoughtSignature":"skip_thought_signature_validator"}]},
      {"role":"user","parts":[{"functionResponse":{"id":"a1","name":"f","response":{"output":"ok"}}}]}],
      "systemInstruction":{"role":"user","parts":[{"text":"s"}]},"tools":[{"functionDeclarations":[{"name":"f","parametersJsonSchema":{"type":"object"}},{"name":"g","parameters":{"type":"OBJECT","properties":{"x":{"type":"STRING"}}}}]}],
      "generationConfig":{"topK":64,"thinkingConfig":{"includeThoughts":true,"thinkingLevel":"THINKING_LEVEL_UNSPECIFIED"}}}`,
  },
} as const;
