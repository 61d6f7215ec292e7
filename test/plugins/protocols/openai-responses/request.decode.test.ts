import t from "tap";
import { fields } from "../../../../plugins/protocols/openai-responses/support.ts";
import { CLIENT_BODIES } from "../../../support/client-bodies.ts";
import { faultsOf } from "../../../support/vendor-rules.ts";
import { INPUT, read, recordedRequests, says, written } from "./request.asking.ts";

const recordings = recordedRequests();
const skip = recordings.length === 0 && "recordings are not here";

t.test("every recorded request, read and written again, is the very same", { skip }, async (t) => {
  for (const [name, body] of recordings) {
    const conversation = read({ ...body, model: "any" }, { native: true });
    t.same(written(conversation).body, { ...body, model: "any" }, name);
  }
});

t.test("what a recorded request says is in the table of fields", { skip }, async (t) => {
  const known = new Set(fields.map(([, feature]) => feature));
  const unknown = recordings.flatMap(([, body]) => read(body).uses.filter(({ feature }) => !known.has(feature)));
  t.same(unknown, []);
});

t.test("a coding agent's request is the very same again, big numbers and all", async (t) => {
  const { body } = CLIENT_BODIES["openai-responses"];
  t.same(written(read(body, { native: true })).body, { ...JSON.parse(body), model: "any" });
});

t.test("a coding agent's request loses what only the vendor has, and nothing of it is an error", async (t) => {
  const { body } = CLIENT_BODIES["openai-responses"];
  const { input, ...rest } = JSON.parse(body) as { input: object[] };
  const conversation = read({ ...rest, input: input.slice(0, -1) });
  t.same(says(conversation), [
    "web_search tools.0",
    "other tools.1",
    "tools_custom tools.2",
    "tools_namespace input.0.tools.0",
    "tools_custom input.0.tools.0.tools.0",
    "reasoning_text input.2",
    "other input.3",
    "tools_namespace input.4.namespace",
    "tools_custom input.4",
    "image_base64 input.5.output.1.image_url",
    "tool_result_media input.5.output.1",
    "tool_choice tool_choice",
    "parallel_off parallel_tool_calls",
    "verbosity text.verbosity",
    "reasoning_effort reasoning.effort",
    "cache_key prompt_cache_key",
    "cosmetic client_metadata",
  ]);
  t.same(faultsOf("openai-responses", written(conversation).text), []);
});

t.test("instructions stand before the input, and both keep their places", async (t) => {
  const { turns } = read({ ...INPUT, instructions: "Be brief." });
  t.same(
    turns.map(({ role, at, parts }) => [role, at, parts.map((part) => part.kind === "text" && part.text)]),
    [
      ["system", "instructions", ["Be brief."]],
      ["user", "input", ["Hi"]],
    ],
  );
});

t.test("fields that the vocabulary has no word for are said with their paths", async (t) => {
  const uses = {
    previous_response_id: "stored_state",
    conversation: "stored_state",
    prompt: "stored_state",
    background: "background",
    context_management: "context_edits",
    moderation: "moderation",
    client_metadata: "cosmetic",
    stream_options: "cosmetic",
    max_tool_calls: "other",
    truncation: "other",
    unheard_of: "other",
  };
  for (const [field, feature] of Object.entries(uses)) {
    const value = field === "background" ? true : "auto";
    t.same(says(read({ ...INPUT, [field]: value })), [`${feature} ${field}`], field);
  }
});

t.test("what is meant anyway says nothing", async (t) => {
  const usual = {
    background: false,
    truncation: "disabled",
    top_logprobs: 0,
    service_tier: "auto",
    store: false,
    stream: true,
    include: ["reasoning.encrypted_content"],
    reasoning: { context: "all_turns", mode: "standard", effort: null, summary: null },
    previous_response_id: null,
    temperature: null,
    text: { format: { type: "text" } },
  };
  t.same(says(read({ ...INPUT, ...usual })), []);
});

t.test("an answer that shall be kept is said", async (t) => {
  t.same(says(read({ ...INPUT, store: true })), ["store store"]);
  t.equal(read({ ...INPUT, store: true }).store, true);
});

t.test("a field of a wrong kind is refused with its path", async (t) => {
  const wrong: [object, string][] = [
    [{ temperature: "warm" }, "temperature"],
    [{ input: 1 }, "input"],
    [{ tools: {} }, "tools"],
    [{ tools: [{ type: "function" }] }, "tools.0.name"],
    [{ tools: [{ type: "function", name: "f", parameters: "{}" }] }, "tools.0.parameters"],
    [{ input: ["Hi"] }, "input.0"],
    [{ input: [{ role: "tool", content: "x" }] }, "input.0.role"],
    [{ input: [{ role: "user" }] }, "input.0.content"],
    [{ input: [{ role: "user", content: [{ type: "input_image" }] }] }, "input.0.content.0.image_url"],
    [{ input: [{ type: "function_call", call_id: "c", name: "f", arguments: {} }] }, "input.0.arguments"],
    [{ reasoning: { effort: "huge" } }, "reasoning.effort"],
    [{ text: { format: { type: "json_schema", name: "n" } } }, "text.format.schema"],
    [{ metadata: { a: 1 } }, "metadata.a"],
    [{ tool_choice: "any" }, "tool_choice"],
  ];
  for (const [field, param] of wrong)
    t.throws(() => read({ ...INPUT, ...field }), { code: "invalid_field", status: 400, param }, param);
  t.throws(() => read({ model: "any" }), { code: "invalid_field", param: "input" });
});

t.test("JSON that is too deep to be read is the client's fault", async (t) => {
  const deep = `{"model":"any","input":"Hi","metadata":${"[".repeat(600)}${"]".repeat(600)}}`;
  t.throws(() => read(deep), { code: "invalid_json" });
});

t.test("a request that goes on from something kept may come without input", async (t) => {
  t.same(read({ model: "any", previous_response_id: "resp_1" }).turns, []);
});

t.test("every form of a request is the very same again", async (t) => {
  const breakpoint = { mode: "explicit", ttl: "12h" };
  const forms: object[] = [
    { input: [], instructions: null, stream: false, store: true, parallel_tool_calls: true, background: false },
    { input: "", instructions: "", metadata: {}, include: [], reasoning: {}, text: {}, tools: [] },
    { user: "u", safety_identifier: "s", top_logprobs: 0, service_tier: "never-heard-of", max_output_tokens: 1 },
    { include: ["message.output_text.logprobs", "unheard.of"], top_logprobs: 2, stream_options: { a: [1.5] } },
    { prompt_cache_options: { mode: "explicit", ttl: "30m" }, prompt_cache_key: "k".repeat(100) },
    { prompt_cache_options: { ttl: "30m", more: 1 }, reasoning: { effort: null, summary: "concise", mode: "pro" } },
    { text: { format: { type: "json_schema", name: "a b", schema: {}, strict: null, x: 1 }, verbosity: null } },
    {
      tool_choice: {
        type: "allowed_tools",
        mode: "required",
        tools: [
          { type: "mcp", server_label: "l" },
          { type: "custom", name: "c" },
        ],
      },
    },
    { tool_choice: { type: "allowed_tools", mode: "auto", tools: [{ type: "function", name: "f", x: 1 }] } },
    { tool_choice: { type: "mcp", server_label: "l", name: "n" } },
    {
      tools: [
        { type: "namespace", name: "n", description: "d", tools: [] },
        { type: "namespace", name: "n", tools: [{ type: "function", name: "f", parameters: null, strict: null }] },
        {
          type: "web_search",
          search_context_size: "medium",
          filters: null,
          user_location: { city: null, region: "r" },
        },
        { type: "web_search_preview", search_context_size: "low", filters: { blocked_domains: ["b"], more: true } },
        { type: "custom", name: "c", format: { type: "text" }, defer_loading: true },
      ],
      input: [
        { role: "user", content: [{ type: "input_text", text: "a", prompt_cache_breakpoint: breakpoint }] },
        { type: "additional_tools", role: "developer", tools: [{ type: "function", name: "g", strict: true }] },
        { type: "additional_tools", tools: [{ type: "namespace", name: "m", tools: [{ type: "custom", name: "h" }] }] },
        {
          role: "assistant",
          phase: null,
          content: [{ type: "output_text", text: "", annotations: null, logprobs: [] }],
        },
        {
          role: "assistant",
          name: "Ada",
          content: [{ type: "refusal", refusal: "No.", x: 1 }, { type: "unheard_of" }],
        },
      ],
    },
    {
      input: [
        {
          type: "reasoning",
          summary: [{ type: "summary_text", text: "a\nb" }],
          content: [
            { type: "reasoning_text", text: "c\n" },
            { type: "reasoning_text", text: "" },
            { type: "reasoning_text", text: "\nd", x: 1 },
          ],
          encrypted_content: null,
        },
        { type: "function_call", id: "fc_1", call_id: "a:b", name: "x.y", arguments: "", async: true },
        { type: "function_call_output", call_id: "a:b", output: [], status: null },
        {
          role: "user",
          content: [{ type: "input_image", image_url: "https://a.example", file_id: "f", detail: "odd" }],
        },
        {
          role: "user",
          content: [
            { type: "input_file", file_data: "JVBE" },
            { type: "input_file", file_id: "f" },
          ],
        },
        { role: "user", content: [{ type: "input_audio", input_audio: { data: "AA", format: "flac", x: 1 } }] },
        { role: "user", content: [{ type: "input_file", file_data: "data:;base64,JVBE", file_url: null }] },
      ],
    },
  ];
  for (const form of forms) {
    const body = { ...INPUT, ...form };
    t.same(written(read(body, { native: true }), { sampling: true }).body, body, JSON.stringify(form).slice(0, 80));
  }
});
