import t from "tap";
import { fields } from "../../../../plugins/protocols/openai-responses/support.ts";
import { SUMMARY_STATE } from "../../../../plugins/protocols/openai-responses/wire.ts";
import type { Part } from "../../../../src/translation/conversation.ts";
import type { Opaque } from "../../../../src/translation/events.ts";
import { RawJson } from "../../../../src/wire/exact.ts";
import { type JsonObject } from "../../../../src/wire/values.ts";
import { CLIENT_BODIES } from "../../../support/client-bodies.ts";
import { faultsOf } from "../../../support/vendor-rules.ts";
import { INPUT, read, recordedRequests, says, written } from "./requests.ts";

const recordings = recordedRequests();
const skip = recordings.length === 0 && "recordings are not here";

t.test("what a recorded request declares is in the table of fields", { skip }, async (t) => {
  const known = new Set(fields.map(([, feature]) => feature));
  const unknown = recordings.flatMap(([, body]) => read(body).uses.filter(({ feature }) => !known.has(feature)));
  t.same(unknown, []);
});

t.test("a coding agent's request loses what only the vendor supports, and nothing of it is an error", async (t) => {
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

t.test("instructions come before the input, and both keep their paths", async (t) => {
  const { turns } = read({ ...INPUT, instructions: "Be brief." });
  t.same(
    turns.map(({ role, at, parts }) => [role, at, parts.map((part) => part.kind === "text" && part.text)]),
    [
      ["system", "instructions", ["Be brief."]],
      ["user", "input", ["Hi"]],
    ],
  );
});

t.test("fields without an equivalent in the conversation are declared with their paths", async (t) => {
  const uses = {
    previous_response_id: "stored_state",
    conversation: "stored_state",
    prompt: "stored_state",
    background: "background",
    context_management: "context_edits",

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

t.test("default values declare nothing", async (t) => {
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

t.test("a request to store the answer is declared", async (t) => {
  t.same(says(read({ ...INPUT, store: true })), ["store store"]);
  t.equal(read({ ...INPUT, store: true }).store, true);
});

t.test("a field of a wrong type is refused with its path", async (t) => {
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
  for (const stream of ["yes", 1])
    t.throws(() => read({ ...INPUT, stream }), { code: "invalid_field", param: "stream" });
});

t.test("JSON that is nested too deep is the client's fault", async (t) => {
  const deep = `{"model":"any","input":"Hi","metadata":${"[".repeat(600)}${"]".repeat(600)}}`;
  t.throws(() => read(deep), { code: "invalid_json" });
});

t.test("a request that continues a stored response may come without input", async (t) => {
  t.same(read({ model: "any", previous_response_id: "resp_1" }).turns, []);
});

const items = (...input: object[]) => read({ model: "any", input });
const partsOf = (...input: object[]): Part[] => items(...input).turns.flatMap((turn) => turn.parts);

t.test("each item is a turn of its own, with its path", async (t) => {
  const { turns } = items(
    { role: "developer", content: "D" },
    { type: "message", role: "user", content: [{ type: "input_text", text: "U" }] },
    { type: "reasoning", summary: [], encrypted_content: "gAAAA" },
    { type: "function_call", call_id: "c1", name: "f", arguments: "{}" },
    { type: "function_call_output", call_id: "c1", output: "ok" },
  );
  t.same(
    turns.map(({ role, at, parts: [part] }) => [role, at, part?.kind, part?.at]),
    [
      ["developer", "input.0", "text", "input.0.content"],
      ["user", "input.1", "text", "input.1.content.0"],
      ["assistant", "input.2", "reasoning", "input.2"],
      ["assistant", "input.3", "tool_call", "input.3"],
      ["user", "input.4", "tool_result", "input.4"],
    ],
  );
});

t.test("reasoning has its summary, its text and its state, but no id", async (t) => {
  const [part] = partsOf({
    type: "reasoning",
    id: "rs_1",
    summary: [
      { type: "summary_text", text: "One" },
      { type: "summary_text", text: "Two" },
    ],
    content: [{ type: "reasoning_text", text: "Hm." }],
    encrypted_content: "gAAAA",
  });
  t.same(part, {
    kind: "reasoning",
    at: "input.0",
    text: "Hm.",
    summary: ["One", "Two"],
    opaque: { protocol: "openai-responses", kind: "encrypted", data: "gAAAA" },
  });
});

t.test("reasoning with an envelope has the envelope's content, on the call it belongs to", async (t) => {
  const opaque = { protocol: "gemini", account: "g", kind: "thoughtSignature", data: "c2ln", on: { call: "c1" } };
  const input = [{ type: "reasoning", summary: [], content: null, encrypted_content: "gw1.x" }];
  const { turns } = read(
    { model: "any", input },
    { open: (text) => (text === "gw1.x" ? opaque : { ...opaque, data: "" }) },
  );
  t.same(turns[0]?.parts, [{ kind: "reasoning", at: "input.0", opaque }]);
});

t.test("arguments and free text keep their text", async (t) => {
  const text = '{"a": 1.0, "b": 12345678901234567890}';
  const calls = partsOf(
    { type: "function_call", id: "fc_1", call_id: "c1", name: "f", arguments: text, status: "completed" },
    { type: "custom_tool_call", call_id: "c2", name: "exec", namespace: "functions", input: "ls\n" },
  );
  t.same(calls, [
    { kind: "tool_call", id: "c1", name: "f", arguments: text, at: "input.0" },
    {
      kind: "tool_call",
      id: "c2",
      name: "exec",
      namespace: "functions",
      arguments: "ls\n",
      custom: true,
      at: "input.1",
    },
  ]);
});

t.test("a generated image is base64 of a format, or a refusal at its field", async (t) => {
  const call = (more: object) => ({ type: "image_generation_call", id: "ig_1", ...more });
  const drawn = (more: object) => items(call(more)).turns[0]?.parts[0];
  const source = { base64: "iVBO" };
  t.match(drawn({ result: "iVBO" }), { kind: "media", mime: "image/png", source });
  t.match(drawn({ result: "iVBO", output_format: "svg+xml" }), { mime: "image/svg+xml", source });
  t.match(drawn({ result: "data:image/webp;charset=x;base64,iVBO" }), { mime: "image/webp", source });
  t.match(drawn({ result: "" }), { kind: "foreign" });
  for (const result of ["not base64 <<>>", " ", "iV=BO", "data:image/png,x", "data:image/png;base64,<>"])
    t.throws(() => drawn({ result }), { code: "invalid_field", status: 400, param: "input.0.result" }, result);
  for (const output_format of ["svg+xml;charset=x", "a/b", "", "png,gif", "p ng"])
    t.throws(
      () => drawn({ result: "iVBO", output_format }),
      { code: "invalid_field", param: "input.0.output_format" },
      output_format,
    );
});

t.test("a result may be text or parts, with images and files", async (t) => {
  const call = { type: "function_call", call_id: "c1", name: "f", arguments: "" };
  const output = [
    { type: "input_text", text: "a" },
    { type: "input_image", image_url: "data:image/png;base64,iVBO", detail: "original" },
  ];
  const conversation = items(call, { type: "function_call_output", call_id: "c1", output });
  t.same(conversation.turns[1]?.parts, [
    {
      kind: "tool_result",
      callId: "c1",
      at: "input.1",
      parts: [
        { kind: "text", text: "a", at: "input.1.output.0" },
        {
          kind: "media",
          media: "image",
          mime: "image/png",
          source: { base64: "iVBO" },
          detail: "original",
          detailAt: "input.1.output.1.detail",
          at: "input.1.output.1",
        },
      ],
    },
  ]);
  t.same(says(conversation), [
    "image_base64 input.1.output.1.image_url",
    "media_detail input.1.output.1.detail",
    "tool_result_media input.1.output.1",
  ]);
});

t.test("tools of an item are added to the others", async (t) => {
  const conversation = read({
    model: "any",
    tools: [{ type: "function", name: "f" }],
    input: [
      { type: "additional_tools", id: "at_1", role: "developer", tools: [{ type: "function", name: "g" }] },
      { role: "user", content: "Hi" },
    ],
  });
  t.same(
    conversation.tools.map((tool) => [tool.kind === "function" && tool.name, tool.at]),
    [
      ["f", "tools.0"],
      ["g", "input.0.tools.0"],
    ],
  );
  t.equal(conversation.turns.length, 1);
});

t.test(
  "a reference to reasoning is dropped, one to a turn and a compaction is refused, and other vendor items are foreign",
  async (t) => {
    const conversation = items(
      { type: "item_reference", id: "rs_1" },
      { type: "web_search_call", id: "ws_1", status: "completed" },
      { type: "compaction", encrypted_content: "gAAAA" },
      { id: "msg_1", type: null },
      { type: "never_heard_of", deep: { a: 1 } },
    );
    t.same(says(conversation), [
      "other input.0",
      "foreign_block input.1",
      "stored_state input.2",
      "stored_state input.3",
      "foreign_block input.4",
    ]);
    t.same(conversation.turns[4]?.parts, [
      {
        kind: "foreign",
        protocol: "openai-responses",
        name: "never_heard_of",
        json: { type: "never_heard_of", deep: { a: 1 } },
        at: "input.4",
      },
    ]);
  },
);

t.test("a turn by its id is refused with advice on how to send it, of any kind", async (t) => {
  for (const id of ["msg_1", "fc_1", "", null, undefined, 5]) {
    const [uses] = items({ type: "item_reference", id }).uses;
    t.match(uses, { feature: "stored_state", path: "input.0", hint: /store: false/ }, String(id));
  }
});

t.test("an id with other members is no reference: an item has its type", async (t) => {
  for (const item of [{ id: "msg_1", content: "Hi" }, { id: 5 }, {}])
    t.throws(() => items(item), { code: "invalid_field", param: "input.0.type" });
});

t.test("a meaningful position is declared: a system message between turns, an assistant turn at the end", async (t) => {
  const conversation = items(
    { role: "system", content: "S" },
    { role: "developer", content: "D" },
    { role: "user", content: "U" },
    { role: "system", content: "S" },
    { role: "assistant", phase: "commentary", content: [{ type: "output_text", text: "Well," }] },
  );
  t.same(says(conversation), ["phase input.4.phase", "system_in_place input.3", "prefill input.4"]);
  t.equal(conversation.turns[4]?.phase, "commentary");
});

t.test("a name is kept, and unknown members are declared", async (t) => {
  const conversation = items({ role: "user", name: "Ada", content: "Hi", mood: "good" });
  t.equal(conversation.turns[0]?.name, "Ada");
  t.same(says(conversation), ["name input.0.name", "other input.0.mood"]);
});

const content = (...parts: object[]) => read({ model: "any", input: [{ role: "user", content: parts }] });
const contentAt = (n: number) => `input.0.content.${n}`;

t.test("what the assistant said is read as texts and refusals", async (t) => {
  const spoken = [
    { type: "output_text", text: "A", annotations: [], logprobs: [] },
    { type: "refusal", refusal: "No." },
  ];
  const conversation = read({
    model: "any",
    input: [
      { role: "assistant", content: spoken },
      { role: "user", content: [] },
    ],
  });
  t.same(conversation.turns[0]?.parts, [
    { kind: "text", text: "A", at: contentAt(0) },
    { kind: "refusal", text: "No.", at: contentAt(1) },
  ]);
  t.same(says(conversation), []);
});

t.test("images come as bytes, by URL, or by an id", async (t) => {
  const conversation = content(
    { type: "input_image", image_url: "data:image/jpeg;base64,/9j/", detail: "auto" },
    { type: "input_image", image_url: "https://a.example/b.png", detail: "low" },
    { type: "input_image", file_id: "file-1", image_url: null },
  );
  const image = { kind: "media", media: "image" };
  t.same(conversation.turns[0]?.parts, [
    {
      ...image,
      mime: "image/jpeg",
      source: { base64: "/9j/" },
      detail: "auto",
      detailAt: `${contentAt(0)}.detail`,
      at: contentAt(0),
    },
    {
      ...image,
      source: { url: "https://a.example/b.png" },
      detail: "low",
      detailAt: `${contentAt(1)}.detail`,
      at: contentAt(1),
    },
    { ...image, source: { id: "file-1", protocol: "openai-responses" }, at: contentAt(2) },
  ]);
  t.same(says(conversation), [
    `image_base64 ${contentAt(0)}.image_url`,
    `image_url ${contentAt(1)}.image_url`,
    `media_detail ${contentAt(1)}.detail`,
    `file_id ${contentAt(2)}.file_id`,
  ]);
});

t.test("files come with a media type or without, by URL, or by an id", async (t) => {
  const conversation = content(
    { type: "input_file", filename: "a.pdf", file_data: "data:application/pdf;base64,JVBE" },
    { type: "input_file", filename: "b.bin", file_data: "JVBE" },
    { type: "input_file", file_url: "https://a.example/c.pdf" },
    { type: "input_file", file_id: "file-2" },
  );
  const file = { kind: "media", media: "file" };
  t.same(conversation.turns[0]?.parts, [
    { ...file, mime: "application/pdf", source: { base64: "JVBE" }, filename: "a.pdf", at: contentAt(0) },
    { ...file, source: { base64: "JVBE" }, filename: "b.bin", at: contentAt(1) },
    { ...file, source: { url: "https://a.example/c.pdf" }, at: contentAt(2) },
    { ...file, source: { id: "file-2", protocol: "openai-responses" }, at: contentAt(3) },
  ]);
});

t.test("a data: URL without base64 is refused", async (t) => {
  t.throws(() => content({ type: "input_image", image_url: "data:image/svg+xml,<svg/>" }), {
    code: "invalid_field",
    param: `${contentAt(0)}.image_url`,
  });
});

t.test("audio has a media type by its format", async (t) => {
  const audio = (format: string) => ({ type: "input_audio", input_audio: { data: "AAAA", format } });
  const { turns } = content(audio("wav"), audio("mp3"), audio("flac"));
  t.same(
    turns[0]?.parts.map((part) => part.kind === "media" && part.mime),
    ["audio/wav", "audio/mpeg", "audio/flac"],
  );
});

t.test("a cache mark keeps its duration", async (t) => {
  const text = (breakpoint: object) => ({ type: "input_text", text: "x", prompt_cache_breakpoint: breakpoint });
  const conversation = content(text({ mode: "explicit" }), text({ mode: "explicit", ttl: "12h" }));
  t.same(
    conversation.turns[0]?.parts.map((part) => part.cache),
    [{ at: `${contentAt(0)}.prompt_cache_breakpoint` }, { ttl: "12h", at: `${contentAt(1)}.prompt_cache_breakpoint` }],
  );
  t.same(says(conversation), [
    `cache_mark ${contentAt(0)}.prompt_cache_breakpoint`,
    `cache_mark ${contentAt(1)}.prompt_cache_breakpoint`,
  ]);
});

t.test("citations with a URL are kept, and all are declared", async (t) => {
  const annotations = [
    { type: "url_citation", url: "https://a.example", title: "A", start_index: 1, end_index: 3 },
    { type: "file_citation", file_id: "file-1", filename: "a.txt", index: 1 },
  ];
  const input = [
    { role: "assistant", content: [{ type: "output_text", text: "text", annotations }] },
    { role: "user", content: "?" },
  ];
  const conversation = read({ model: "any", input });
  t.same(conversation.turns[0]?.parts, [
    {
      kind: "text",
      text: "text",
      at: contentAt(0),
      citations: [{ url: "https://a.example", title: "A", start: 1, end: 3 }],
    },
  ]);
  t.same(says(conversation), [`citations ${contentAt(0)}.annotations`]);
});

t.test("an unknown part stays unchanged", async (t) => {
  const part = { type: "input_hologram", data: "x" };
  const conversation = content(part);
  t.match(conversation.turns[0]?.parts, [{ kind: "foreign", name: "input_hologram", json: part }]);
  t.same(says(conversation), [`foreign_block ${contentAt(0)}`]);
});

t.test("an image in the form of Chat is no part that can be left out", async (t) => {
  const conversation = content({ type: "image_url", image_url: { url: "data:image/png;base64,aGk=" } });
  t.same(says(conversation), [`foreign_media ${contentAt(0)}`]);
});

const offering = (...tools: object[]) => read({ ...INPUT, tools });

t.test("a schema keeps its text", async (t) => {
  const schema = '{ "type":"object", "properties":{"a":{"type":"integer","maximum":12345678901234567890}} }';
  const text = `{"model":"any","input":"Hi","tools":[{"type":"function","name":"f","description":"F","parameters":${schema},"strict":true}]}`;
  const conversation = read(text);
  t.same(conversation.tools, [
    { kind: "function", name: "f", description: "F", parameters: new RawJson(schema), strict: true, at: "tools.0" },
  ]);
  t.same(says(conversation), ["tools tools.0", "tools_strict tools.0.strict"]);
});

t.test("tools have their namespace, and other members of the namespace are declared lost", async (t) => {
  const conversation = offering({
    type: "namespace",
    name: "functions",
    description: "Mine",
    tools: [
      { type: "function", name: "f", strict: false },
      { type: "custom", name: "exec", format: { type: "grammar", syntax: "lark", definition: "start: /.+/" } },
    ],
  });
  t.same(conversation.tools, [
    { kind: "function", name: "f", strict: false, namespace: "functions", at: "tools.0.tools.0" },
    {
      kind: "custom",
      name: "exec",
      grammar: { syntax: "lark", definition: "start: /.+/" },
      grammarAt: "tools.0.tools.1.format",
      namespace: "functions",
      at: "tools.0.tools.1",
    },
  ]);
  t.same(says(conversation), [
    "tools_namespace tools.0",
    "tools tools.0.tools.0",
    "tools_custom tools.0.tools.1",
    "other tools.0.description",
  ]);
});

t.test("web search is the same under all its names", async (t) => {
  for (const type of ["web_search", "web_search_2025_08_26", "web_search_preview", "web_search_preview_2025_03_11"]) {
    const conversation = offering({
      type,
      filters: { allowed_domains: ["a.example"] },
      search_context_size: "low",
      user_location: { type: "approximate", city: "Oslo", country: "NO", region: null },
    });
    t.same(conversation.tools, [
      {
        kind: "web_search",
        allowed: ["a.example"],
        size: "low",
        location: { city: "Oslo", country: "NO" },
        paths: {
          allowed: "tools.0.filters.allowed_domains",
          size: "tools.0.search_context_size",
          location: "tools.0.user_location",
        },
        at: "tools.0",
      },
    ]);
    t.same(says(conversation), ["web_search tools.0"]);
  }
});

t.test("what agents always send is not refused, and what changes a tool is declared", async (t) => {
  const conversation = offering(
    { type: "tool_search" },
    { type: "web_search", external_web_access: true, search_context_size: "medium" },
    { type: "web_search", external_web_access: false },
    { type: "function", name: "f", defer_loading: true },
    { type: "function", name: "g", defer_loading: false, async: false },
    { type: "code_interpreter", container: { type: "auto" } },
  );
  t.same(says(conversation), [
    "other tools.0",
    "web_search tools.1",
    "web_search tools.2",
    "other tools.2.external_web_access",
    "tools tools.3",
    "other tools.3.defer_loading",
    "tools tools.4",
    "tools_server tools.5",
  ]);
});

t.test("a choice is a mode, a tool, or some of them", async (t) => {
  const choice = (tool_choice: unknown) => {
    const conversation = read({ ...INPUT, tool_choice });
    return [conversation.toolChoice, says(conversation)];
  };
  const uses = ["tool_choice tool_choice"];
  for (const mode of ["auto", "none", "required"]) t.same(choice(mode), [{ mode }, uses], mode);
  t.same(choice({ type: "function", name: "f" }), [{ mode: "named", name: "f" }, uses]);
  t.same(choice({ type: "custom", name: "c" }), [{ mode: "named", name: "c", custom: true }, uses]);
  t.same(choice({ type: "web_search_preview" }), [{ mode: "named", name: "web_search", server: true }, uses]);
  t.same(choice({ type: "tool_search" }), [{ mode: "named", name: "tool_search", server: true }, uses]);
  const allowed = [{ type: "function", name: "f" }, { type: "image_generation" }];
  t.same(choice({ type: "allowed_tools", mode: "required", tools: allowed }), [
    { mode: "allowed", required: true, names: ["f", "image_generation"] },
    [...uses, "tool_choice_allowed tool_choice"],
  ]);
});

t.test("free text is no grammar, and unknown members of one are declared", async (t) => {
  const tool = (format: object) => read({ ...INPUT, tools: [{ type: "custom", name: "c", format }] });
  t.same(tool({ type: "text" }).tools, [{ kind: "custom", name: "c", at: "tools.0" }]);
  t.same(says(tool({ type: "text" })), ["tools_custom tools.0"]);
  const grammar = { syntax: "lark", definition: "start: /a/" };
  const odd = tool({ type: "grammar", ...grammar, flags: "i" });
  t.same(odd.tools, [{ kind: "custom", name: "c", grammar, grammarAt: "tools.0.format", at: "tools.0" }]);
  t.same(says(odd), ["tools_custom tools.0", "other tools.0.format.flags"]);
});

t.test("reasoning: its effort, and whether it is shown", async (t) => {
  const conversation = read({ ...INPUT, reasoning: { effort: "xhigh", summary: "auto" } });
  t.same(conversation.reasoning, { effort: "xhigh", summary: "auto", show: true });
  t.same(says(conversation), ["reasoning_effort reasoning.effort", "reasoning_summary reasoning.summary"]);
  t.same(says(read({ ...INPUT, reasoning: { context: "current_turn", mode: "pro" } })), [
    "other reasoning.context",
    "other reasoning.mode",
  ]);
});

t.test("the form of the answer", async (t) => {
  const format = { type: "json_schema", name: "n", description: "d", strict: true, schema: { type: "object" } };
  const conversation = read({ ...INPUT, text: { verbosity: "low", format } });
  t.equal(conversation.verbosity, "low");
  t.same(conversation.format, {
    kind: "schema",
    name: "n",
    description: "d",
    strict: true,
    schema: new RawJson('{"type":"object"}'),
  });
  t.same(says(conversation), [
    "verbosity text.verbosity",
    "json_schema text.format",
    "json_schema_strict text.format.strict",
  ]);
  t.same(read({ ...INPUT, text: { format: { type: "json_object" } } }).format, { kind: "json" });
});

t.test("log probabilities are requested in two places", async (t) => {
  const include = ["message.output_text.logprobs"];
  t.equal(read({ ...INPUT, include }).logprobs, 0);
  t.equal(read({ ...INPUT, include, top_logprobs: 5 }).logprobs, 5);
  t.equal(read({ ...INPUT, top_logprobs: 0 }).logprobs, undefined);
  t.same(says(read({ ...INPUT, include: ["file_search_call.results"] })), ["other include.0"]);
});

t.test("labels, caches and tiers", async (t) => {
  const conversation = read({
    ...INPUT,
    prompt_cache_key: "k",
    safety_identifier: "s",
    user: "u",
    metadata: { a: "b" },
    service_tier: "flex",
    prompt_cache_options: { ttl: "30m" },
  });
  const { cacheKey, user, metadata, tier, cache } = conversation;
  t.same([cacheKey, user, metadata, tier, cache], ["k", "s", { a: "b" }, "flex", { ttl: "30m" }]);
  t.same(says(conversation), [
    "metadata metadata",
    "cache_key prompt_cache_key",
    "user safety_identifier",
    "tier service_tier",
    "cache_mark prompt_cache_options",
    "other user",
  ]);
});

t.test("with explicit marks only, nothing is marked as a whole", async (t) => {
  const conversation = read({ ...INPUT, prompt_cache_options: { mode: "explicit", ttl: "30m" } });
  t.equal(conversation.cache, undefined);
  t.same(says(conversation), ["cosmetic prompt_cache_options"]);
});

const trigger = { type: "compaction_trigger" };
const hi = { role: "user", content: "Hi" };
const offered = [{ type: "function", name: "f", parameters: { type: "object" } }];
const textAt = ({ turns }: ReturnType<typeof read>, turn: number): string => {
  const [part] = turns.at(turn)?.parts ?? [];
  return part?.kind === "text" ? part.text : "";
};
/** A request with a compaction item whose envelope holds something. */
const carrying = (opaque: Opaque, item: JsonObject = {}) =>
  read(
    { model: "any", input: [{ type: "compaction", encrypted_content: "gw1.x", ...item }, hi] },
    { open: () => opaque },
  );

const summary: Opaque = { ...SUMMARY_STATE, data: "They said hi." };

t.test(
  "a compaction is requested by a prompt, at the end of the same conversation, and the change is declared",
  async (t) => {
    const body = { model: "any", tools: offered, input: [hi, { ...trigger, id: null }] };
    const asked = read(body);
    t.same(
      asked.turns.map(({ role, at }) => [role, at]),
      [
        ["user", "input.0"],
        ["user", "input.1"],
      ],
    );
    t.match(textAt(asked, 1), /^Sum up the conversation .*goal.*decisions.*files.*still open.*nothing else\.$/s);
    t.same(asked.changed, [
      { path: "input.1", why: "a compaction is requested by a prompt, as plain text and without tool calls" },
    ]);
    t.same(says(asked), ["tools tools.0"]);
    t.same(asked.tools, read({ ...body, input: [hi] }).tools, "the tools stay: the cached prefix begins with them");
    t.same(asked.toolChoice, { mode: "none" });
  },
);

t.test("neither a choice of tools nor a format of the answer applies to a compaction", async (t) => {
  const schema = { type: "json_schema", name: "n", strict: true, schema: { type: "object" } };
  const tool_choice = { type: "mcp", server_label: "l" };
  const asked = read({
    model: "any",
    tools: offered,
    tool_choice,
    text: { format: schema, mood: "good" },
    input: [hi, trigger],
  });
  t.same(says(asked), ["tools tools.0", "other text.mood"]);
  t.equal(asked.format, undefined);
  t.same(asked.toolChoice, { mode: "none" });
});

t.test("unknown members of a trigger are declared", async (t) => {
  t.same(says(read({ model: "any", input: [hi, { ...trigger, id: "ct_1", hurry: true }] })), ["other input.1.hurry"]);
});

t.test("a trigger that is not the last item is a 400 that names it", async (t) => {
  t.throws(() => read({ model: "any", input: [trigger, hi] }), {
    code: "invalid_field",
    param: "input.0",
    message: /must be the last item/,
  });
});

t.test("a summary in an envelope is returned as a text of the user, in the item's position", async (t) => {
  const more = { id: "cmp_1", created_by: "them" };
  const asked = carrying(summary, more);
  t.same(asked.turns[0], {
    role: "user",
    at: "input.0",
    parts: [{ kind: "text", text: "Summary of the conversation so far:\n\nThey said hi.", at: "input.0" }],
  });
  t.same(says(asked), []);
  t.equal(asked.changed, undefined);
  t.same(says(carrying(summary, { mood: "good" })), ["other input.0.mood"]);
});

t.test("a compaction of the vendor's own can be read by no other vendor", async (t) => {
  for (const encrypted_content of ["gAAAA", undefined]) {
    const asked = read({ model: "any", input: [{ type: "compaction", encrypted_content }, hi] });
    t.same(says(asked), ["stored_state input.0"]);
  }
});

t.test("an envelope of another kind is no compaction", async (t) => {
  const reasoning = { protocol: "openai-responses", account: "them", kind: "encrypted", data: "gAAAA" };
  const foreign = { protocol: "gemini", account: "them", kind: "thoughtSignature", data: "c2ln" };
  for (const opaque of [reasoning, foreign, { ...foreign, protocol: "gateway" }])
    t.throws(() => carrying(opaque), { code: "invalid_field", param: "input.0.encrypted_content" });
});

t.test("tools that are added by items do not each keep their namespace", async (t) => {
  const inner = Array.from({ length: 1000 }, (_, i) => ({ type: "function", name: `f${i}` }));
  const added = { type: "additional_tools", tools: [{ type: "namespace", name: "n".repeat(200_000), tools: inner }] };
  const before = process.memoryUsage().heapUsed;
  let taken = 0;
  const open = (data: string, kind: string) => {
    taken = process.memoryUsage().heapUsed - before;
    return { protocol: "openai-responses", kind, data };
  };
  const reasoning = { type: "reasoning", summary: [], encrypted_content: "state" };
  const { tools } = read({ input: [added, added, reasoning, { role: "user", content: "Hi" }] }, { open });
  t.equal(tools.length, 1000);
  t.ok(taken < 100 * 1024 * 1024, `${taken} bytes`);
});
