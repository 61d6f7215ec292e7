/** Members of requests that nobody recorded: every form that is documented, and what is odd but no error of ours. */

const breakpoint = { mode: "explicit", ttl: "12h" };
const image = { type: "input_image", image_url: "data:image/png;base64,iVBO" };
const user = (...content: object[]) => ({ role: "user", content });

export const ODD_REQUESTS: readonly object[] = [
  { temperature: 3, max_output_tokens: 0, metadata: { a: 1, b: null, c: "d" }, service_tier: 5, instructions: ["a"] },
  { stream: true, background: true, temperature: 0, top_p: 1, max_output_tokens: 100, truncation: "auto" },
  { top_logprobs: -1, include: null, tools: null, tool_choice: null, metadata: null, reasoning: null, text: null },
  { reasoning: { effort: "never-heard-of", summary: "none", generate_summary: "auto", context: "current_turn" } },
  { text: { format: { type: "never-heard-of", a: 1 }, verbosity: "never-heard-of" } },
  { text: { format: null, verbosity: "low" }, prompt_cache_options: { mode: "implicit", ttl: "12h" } },
  { text: { format: { type: "text" } }, prompt_cache_options: { ttl: 5, mode: "explicit" } },
  { text: { format: { type: "json_object", schema: {} } }, prompt_cache_retention: "24h", user: "u" },
  { prompt_cache_options: {}, previous_response_id: "resp_1", conversation: { id: "c" }, max_tool_calls: 3 },
  { tool_choice: { type: "allowed_tools", tools: [{ type: "function", name: "function" }] } },
  { tool_choice: { type: "allowed_tools", mode: "auto" } },
  {
    tool_choice: { type: "allowed_tools", mode: "required", tools: [{ type: "web_search" }, { type: "image", a: 1 }] },
  },
  { tool_choice: { type: "function", name: "f", namespace: "n" } },
  { tool_choice: { type: "custom", name: "c" } },
  { tool_choice: { type: "web_search_preview" } },
  { tool_choice: "required", tools: [{ type: "function", name: "f", parameters: { $ref: "#" }, strict: false }] },
  {
    tools: [
      { type: "web_search_2025_08_26", filters: { allowed_domains: [] }, user_location: { type: "exact", city: "" } },
      { type: "web_search", filters: {}, user_location: { country: "DE", timezone: "Europe/Berlin" }, more: {} },
      { type: "mcp", server_label: "l", headers: { a: "b" }, allowed_tools: { tool_names: ["x"] } },
      {
        type: "namespace",
        name: "n",
        tools: [
          { type: "mcp", server_label: "l" },
          { type: "custom", name: "c" },
        ],
      },
      { type: "namespace", name: "m", tools: null },
      { type: "custom", name: "d", format: { type: "grammar", syntax: "regex", definition: "a", flags: "i" } },
      { type: "custom", name: "e", format: { type: "text", a: 1 } },
      { type: "custom", name: "f", format: { type: "never-heard-of", syntax: 5 } },
      { type: "custom", name: "g", format: null },
      { type: "namespace", name: "o", description: "d" },
    ],
  },
  {
    input: [
      user({ ...image, detail: "low", prompt_cache_breakpoint: breakpoint }),
      user({ type: "input_image", image_url: "data:image/PNG;name=a;charset=b;base64,iVBO" }),
      user({ type: "input_image", image_url: "DATA:image/png;BASE64,iVBO", detail: null }),
      user({ type: "input_image", image_url: "" }, { type: "input_image", image_url: "data:;base64," }),
      user({ type: "input_file", file_url: "https://a.example/b", filename: "b", detail: "high" }),
      user({ type: "input_file", file_data: "data:text/plain;charset=utf-8;base64,SGk=", filename: "" }),
      user({ type: "input_audio", input_audio: { data: "AA", format: "mpeg" } }),
      user({ type: "input_audio", input_audio: { data: "AA", format: "WAV" } }),
      user({ type: "input_audio", input_audio: { data: "", format: "mp3" } }),
      user({ type: "input_text", text: "a", prompt_cache_breakpoint: { ttl: "1h" } }),
      user({ type: "input_text", text: "a", prompt_cache_breakpoint: { ttl: "1d" } }, { type: "text", text: "" }),
      user({ type: "computer_screenshot", image_url: "x" }),
      { type: "message", role: "user", content: [], status: "completed", id: "msg_1" },
      { type: "message", role: "critic", content: "No." },
    ],
  },
  {
    input: [
      {
        role: "assistant",
        phase: "commentary",
        content: [
          {
            type: "output_text",
            text: "a",
            annotations: [
              null,
              "x",
              { type: "url_citation", url: "u", title: "t", start_index: 0, end_index: 1, more: 1 },
              { type: "url_citation", url: "u", start_index: 0, end_index: 1 },
              { type: "url_citation", url: "u", title: null, start_index: 0.5, end_index: 1 },
              { type: "url_citation", url: "u", title: 5, start_index: 0, end_index: null },
              { type: "file_citation", file_id: "f", filename: "n", index: 3 },
            ],
            logprobs: [{ token: "a", logprob: -0.1, bytes: [97], top_logprobs: [] }],
          },
          { type: "output_text", text: "b", annotations: [] },
        ],
      },
      { type: "reasoning", id: "rs_1", summary: [], content: null, encrypted_content: "gAAA", status: null },
      { type: "reasoning", summary: null, content: [] },
      { type: "custom_tool_call", call_id: "c", name: "n", namespace: "s", input: "", status: "completed" },
      { type: "custom_tool_call_output", call_id: "c", output: "" },
      { type: "function_call", call_id: "d", name: "n", namespace: null, arguments: "not json", async: false },
      {
        type: "function_call_output",
        call_id: "d",
        output: [
          image,
          { type: "input_file", file_id: "f" },
          { type: "unheard_of", a: 1 },
          { type: "refusal", refusal: "" },
        ],
      },
      { type: "item_reference", id: "rs_0" },
      { type: "web_search_call", id: "ws_1", status: "completed", action: { type: "search", query: "q" } },
      { type: "compaction", encrypted_content: "gAAA" },
      { type: "compaction", encrypted_content: 5 },
      { id: "msg_1" },
      { id: "msg_1", type: null },
      { type: "unheard_of", deep: { a: [{}] } },
      { type: "additional_tools", tools: null },
      { type: "additional_tools", tools: [], role: "developer" },
      { type: "compaction_trigger", id: "ct_1" },
    ],
  },
];
