import t from "tap";
import { GatewayError } from "../../../../src/core/errors.ts";
import { type Conversation, type Part } from "../../../../src/translation/conversation.ts";
import { type JsonObject } from "../../../../src/wire/values.ts";
import { CLIENT_BODIES } from "../../../support/client-bodies.ts";
import { dice } from "../../../support/dice.ts";
import { NAME, question, read, requests, translation } from "./speaking.ts";

const uses = ({ uses }: Conversation): Record<string, string> =>
  Object.fromEntries(uses.map(({ path, feature }) => [path, feature]));
const parts = (...content: JsonObject[]): Part[] =>
  read(question({ messages: [{ role: "user", content }] })).turns[0]?.parts ?? [];

t.test("a Claude Code request is read completely, and nothing of it is refused", async (t) => {
  const asked = read(CLIENT_BODIES["anthropic-messages"].body);
  t.same(
    asked.turns.map(({ role, at }) => [role, at]),
    [
      ["system", "system"],
      ["user", "messages.0"],
      ["assistant", "messages.1"],
      ["user", "messages.2"],
      ["system", "messages.3"],
    ],
  );
  t.match(asked.turns[0]?.parts, [{ at: "system.1", text: "You are.", cache: { ttl: "1h" } }]);
  t.match(asked.turns[2]?.parts, [
    { kind: "reasoning", text: "", opaque: { protocol: NAME, kind: "signature", data: "c2ln" } },
    { kind: "tool_call", id: "toolu_1", arguments: '{"big":12345678901234567890}' },
  ]);
  t.match(asked.turns[3]?.parts, [
    { callId: "toolu_1", parts: [{ kind: "text", text: "The tool Cron is available now." }] },
  ]);
  t.match(asked.tools, [{ kind: "function", name: "Cron" }, { name: "Search" }, { kind: "web_search" }]);
  t.same(asked.reasoning, { effort: "high", budget: -1, show: false });
  t.match(uses(asked), {
    "system.0": "cosmetic",
    context_management: "context_edits",
    "metadata.user_id": "user",
    "thinking.display": "reasoning_summary",
    "output_config.effort": "reasoning_effort",
    "tools.0.defer_loading": "cosmetic",
    "tools.1.eager_input_streaming": "cosmetic",
    "tools.2": "web_search",
    "messages.3": "system_in_place",
    "messages.3.content.0.cache_control": "cache_mark",
  });
});

t.test("a compaction is a text of the user's in place of everything before it", async (t) => {
  const compaction = { type: "compaction", content: "So far.", encrypted_content: "e", signature: "s" };
  const text = (text: string) => ({ type: "text", text });
  const asked = (...messages: JsonObject[]) => {
    const conversation = read(question({ system: "Be brief.", messages }));
    return conversation.turns.map(({ role, parts }) => [role, ...parts.map((part) => "text" in part && part.text)]);
  };
  const go = { role: "user", content: "Go on." };
  const brief = ["system", "Be brief."];
  for (const role of ["user", "assistant"])
    t.same(asked({ role, content: [compaction] }, go), [brief, ["user", "So far."], ["user", "Go on."]]);
  const earlier = { role: "assistant", content: [text("Earlier."), compaction] };
  const within = { role: "assistant", content: [text("Before."), compaction, text("After.")] };
  const after = [brief, ["user", "So far."], ["assistant", "After."], ["user", "Go on."]];
  t.same(asked(go, earlier, go, within, go), after, "the last one counts");
  const failed = { role: "assistant", content: [{ ...compaction, content: null }, text("After.")] };
  t.same(asked(go, failed), [brief, ["user", "Go on."], ["assistant", false, "After."]]);
  t.notOk(
    "messages.0.content.0" in uses(read(question({ messages: [{ role: "assistant", content: [compaction] }, go] }))),
  );
});

t.test(
  "tools that messages define are among the others from the start, and replace earlier ones of their name",
  async (t) => {
    const schema = { type: "object", properties: { x: { type: "string" } } };
    const defines = (definition: JsonObject) => ({
      type: "tool_addition",
      tool: { type: "tool_definition", definition },
    });
    const tools = ["f", "g"].map((name) => ({ name, description: "old", input_schema: { type: "object" } }));
    const content = [
      { type: "text", text: "Hi" },
      defines({ name: "g", description: "new", input_schema: schema, strict: true }),
      defines({ type: "mcp_toolset", mcp_server_name: "s" }),
      { type: "tool_addition", tool: { type: "tool_reference", name: "f" } },
    ];
    const asked = read(question({ messages: [{ role: "user", content }], tools }));
    t.match(asked.tools, [
      { name: "f", description: "old" },
      { name: "g", description: "new", strict: true, at: "messages.0.content.1.tool.definition" },
      { kind: "server", name: "mcp_toolset" },
    ]);
    t.equal((asked.tools[1] as { parameters?: { text: string } }).parameters?.text, JSON.stringify(schema));
    t.match(asked.turns[0]?.parts, [
      { text: "Hi" },
      { text: "The tool g is available now." },
      { kind: "foreign" },
      { text: "The tool f is available now." },
    ]);
    t.same(uses(asked), {
      max_tokens: "max_tokens",
      "tools.0": "tools",
      "tools.1": "tools",
      "messages.0.content.1.tool.definition": "tools",
      "messages.0.content.1.tool.definition.strict": "tools_strict",
      "messages.0.content.2": "foreign_block",
      "messages.0.content.2.tool.definition": "tools_server",
    });
  },
);

t.test("a tool that a turn withdraws is not offered, unless a later turn adds it again", async (t) => {
  const tools = ["f", "g", "h"].map((name) => ({ name, input_schema: { type: "object" } }));
  const change = (type: string, name: string, kind = "tool_reference") => ({
    type: `tool_${type}`,
    tool: { type: kind, name, ...(kind === "mcp_tool_reference" ? { server_name: "s" } : {}) },
  });
  const asked = (...contents: unknown[][]) =>
    read(question({ messages: contents.map((content) => ({ role: "user", content })), tools }));
  const names = ({ tools }: Conversation) => tools.map((tool) => ("name" in tool ? tool.name : tool.kind));
  const removed = asked([change("removal", "f"), change("removal", "g")], [change("addition", "g")]);
  t.same(names(removed), ["g", "h"]);
  t.match(removed.turns, [
    { parts: [{ text: "The tool f is no longer available." }, { text: "The tool g is no longer available." }] },
    { parts: [{ text: "The tool g is available now." }] },
  ]);
  // A tool of a server is another one, and no other vendor can call it.
  const server = asked([change("removal", "f", "mcp_tool_reference"), change("addition", "x", "mcp_tool_reference")]);
  t.same(names(server), ["f", "g", "h"]);
  t.match(server.turns[0]?.parts, [{ kind: "foreign" }, { kind: "foreign" }]);
  t.equal(uses(server)["messages.0.content.0"], "foreign_block");
});

t.test("the changes of tools in what a compaction replaces hold", async (t) => {
  const definition = { name: "new", input_schema: { type: "object", properties: { a: { type: "string" } } } };
  const compaction = {
    type: "compaction",
    content: "So far.",
    tool_changes: [
      { type: "tool_removal", tool: { type: "tool_reference", name: "f" } },
      { type: "tool_addition", tool: { type: "tool_definition", definition } },
    ],
  };
  const tools = ["f", "g"].map((name) => ({ name, input_schema: { type: "object" } }));
  const messages = [
    { role: "user", content: [compaction] },
    { role: "user", content: "Go on." },
  ];
  const asked = read(question({ messages, tools }));
  t.match(asked.tools, [{ name: "g" }, { name: "new", at: "messages.0.content.0.tool_changes.1.tool.definition" }]);
  t.notOk("messages.0.content.0.tool_changes" in uses(asked));
  const failed = read(question({ messages: [{ role: "user", content: [{ ...compaction, content: null }] }], tools }));
  t.match(failed.tools, [{ name: "f" }, { name: "g" }]);
});

t.test("the billing header, which differs from run to run, is not part of the system text", async (t) => {
  const billing = "x-anthropic-billing-header: cc_version=2.1.329.c9e; cc_entrypoint=sdk-cli;";
  const block = (text: string, more: object = {}) => ({ type: "text", text, ...more });
  const system = (value: unknown, more: object = {}) => read(question({ system: value, ...more }));
  const whose = ({ turns }: Conversation) => turns.flatMap(({ role, parts }) => (role === "system" ? [parts] : []));
  t.match(whose(system([block(billing), block("You are.")])), [[{ at: "system.1", text: "You are." }]]);
  for (const [only, at] of [
    [billing, "system"],
    [`${billing}\n`, "system"],
    [[block(billing)], "system.0"],
  ] as const) {
    const asked = system(only);
    t.same(whose(asked), []);
    t.same(uses(asked), { max_tokens: "max_tokens", [at]: "cosmetic" });
  }
  // A mark for the cache goes with it, and is declared.
  t.same(uses(system([block(billing, { cache_control: { type: "ephemeral" } })]))["system.0.cache_control"], "other");
  // What says more is the system's own.
  for (const more of [`${billing}\nYou are.`, `Say ${billing}`])
    t.match(whose(system([block(more)])), [[{ text: more }]]);
  t.match(read(question({ messages: [{ role: "system", content: billing }] })).turns[0]?.parts, [{ text: billing }]);
});

t.test("a system that is neither a text nor blocks is refused", async (t) => {
  for (const system of [5, {}, [5]])
    t.throws(() => read(question({ system })), { code: "invalid_field", param: /^system(?:\.0)?$/ });
});

t.test("arguments and schemas keep their text", async (t) => {
  const body = `{"model":"m","max_tokens":1,"tools":[{"name":"f","input_schema":{ "type":"object", "x": 1.0 }}],
    "messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{"a": 1.0,  "b":12345678901234567890}}]}]}`;
  const asked = read(body);
  t.match(asked.turns[0]?.parts[0], { arguments: '{"a": 1.0,  "b":12345678901234567890}' });
  t.match(asked.tools[0], { parameters: { text: '{ "type":"object", "x": 1.0 }' } });
});

t.test("images and documents are read in every form", async (t) => {
  t.match(parts({ type: "image", source: { type: "base64", media_type: "image/png", data: "iVBO" } }), [
    { media: "image", mime: "image/png", source: { base64: "iVBO" } },
  ]);
  t.match(parts({ type: "image", source: { type: "url", url: "https://a/b.png" } }), [
    { source: { url: "https://a/b.png" } },
  ]);
  t.match(parts({ type: "document", source: { type: "url", url: "https://a/paper" } }), [
    { media: "file", mime: "application/pdf", source: { url: "https://a/paper" } },
  ]);
  t.match(parts({ type: "document", title: "T", source: { type: "file", file_id: "file_1" } }), [
    { media: "file", filename: "T", source: { id: "file_1", protocol: NAME } },
  ]);
  t.match(parts({ type: "document", source: { type: "text", media_type: "text/plain", data: "words" } }), [
    { mime: "text/plain", source: { text: "words" } },
  ]);
  const content = [
    { type: "text", text: "a" },
    { type: "text", text: "b" },
  ];
  t.match(parts({ type: "document", source: { type: "content", content } }), [{ source: { text: "a\n\nb" } }]);
  t.match(parts({ type: "search_result", title: "T", source: "https://s", content }), [
    { kind: "text", text: "T\n\nhttps://s\n\na\n\nb" },
  ]);
});

t.test("a tool's result contains text, images, or nothing, and may be an error", async (t) => {
  const image = { type: "image", source: { type: "base64", media_type: "image/png", data: "iVBO" } };
  const content = [{ type: "text", text: "see" }, image];
  const asked = read(
    question({
      messages: [{ role: "user", content: [{ type: "tool_result", tool_use_id: "a", is_error: true, content }] }],
    }),
  );
  t.match(asked.turns[0]?.parts[0], { callId: "a", isError: true, parts: [{ text: "see" }, { media: "image" }] });
  t.match(uses(asked), {
    "messages.0.content.0.is_error": "tool_result_error",
    "messages.0.content.0.content.1": "tool_result_media",
  });
  t.match(parts({ type: "tool_result", tool_use_id: "a", content: "plain" }), [{ parts: [{ text: "plain" }] }]);
  t.match(parts({ type: "tool_result", tool_use_id: "a" }), [{ parts: { length: 0 } }]);
});

t.test("thinking keeps its position, and only signed thinking keeps its state", async (t) => {
  const content = [
    { type: "redacted_thinking", data: "ZGF0YQ" },
    { type: "thinking", thinking: "", signature: "c2ln" },
    { type: "thinking", thinking: "of another", signature: "" },
  ];
  const blocks = read(question({ messages: [{ role: "assistant", content }] })).turns[0]?.parts ?? [];
  t.match(blocks, [
    { kind: "reasoning", redacted: true, opaque: { kind: "redacted", data: "ZGF0YQ" } },
    { kind: "reasoning", text: "", opaque: { kind: "signature", data: "c2ln" } },
    { kind: "reasoning", text: "of another" },
  ]);
  t.notOk("opaque" in (blocks[2] as object));
});

t.test("the thinking settings are read from every form", async (t) => {
  const context = (more: JsonObject) => read(question(more)).reasoning;
  t.same(context({ thinking: { type: "enabled", budget_tokens: 2048 } }), { budget: 2048 });
  t.same(context({ thinking: { type: "adaptive" } }), { budget: -1 });
  t.same(context({ thinking: { type: "adaptive", display: "summarized" }, output_config: { effort: "max" } }), {
    effort: "max",
    budget: -1,
    show: true,
  });
  t.same(context({ thinking: { type: "disabled" }, output_config: { effort: "high" } }), { effort: "none" });
  t.equal(context({}), undefined);
});

t.test("-1 is how some clients leave sampling unrestricted", async (t) => {
  const { topP, topK } = read(question({ top_p: -1, top_k: -1 }));
  t.same([topP, topK], [undefined, undefined]);
  t.same([read(question({ top_k: 0 })).topK, read(question({ top_k: 1 })).topK], [undefined, 1]);
});

t.test("tool choices contain whether parallel calls are allowed", async (t) => {
  const choice = (tool_choice: JsonObject, tools: JsonObject[] = []) => {
    const { toolChoice, parallel } = read(question({ tool_choice, tools }));
    return [toolChoice, parallel];
  };
  t.same(choice({ type: "auto", disable_parallel_tool_use: true }), [{ mode: "auto" }, false]);
  t.same(choice({ type: "any" }), [{ mode: "required" }, undefined]);
  t.same(choice({ type: "none" }), [{ mode: "none" }, undefined]);
  t.same(choice({ type: "tool", name: "f" }), [{ mode: "named", name: "f" }, undefined]);
  const search = { type: "web_search_20260318", name: "web_search", max_uses: 3, allowed_domains: ["a.de"] };
  t.same(choice({ type: "tool", name: "web_search" }, [search])[0], {
    mode: "named",
    name: "web_search",
    server: true,
  });
  t.match(read(question({ tools: [search] })).tools, [{ kind: "web_search", maxUses: 3, allowed: ["a.de"] }]);
  const place = { ...search, user_location: { type: "approximate", city: "Ulm" }, blocked_domains: ["b.de"] };
  t.match(read(question({ tools: [place] })).tools, [
    {
      paths: {
        allowed: "tools.0.allowed_domains",
        blocked: "tools.0.blocked_domains",
        maxUses: "tools.0.max_uses",
        location: "tools.0.user_location",
      },
    },
  ]);
});

t.test("vendor-specific members are declared with a fitting feature", async (t) => {
  const asked = read(
    question({
      mcp_servers: [{ type: "url", url: "https://m", name: "m" }],
      container: "c",
      inference_geo: "eu",
      unheard_of: 1,
      nothing: null,
      tools: [
        { type: "code_execution_20260120", name: "code_execution" },
        { type: "tool_search_tool_bm25_20251119", name: "s" },
      ],
      messages: [
        { role: "user", content: "Hi" },
        { role: "assistant", content: [{ type: "server_tool_use", id: "s", name: "x", input: {} }] },
      ],
    }),
  );
  const told = uses(asked);
  t.match(told, {
    mcp_servers: "tools_server",
    container: "container",
    inference_geo: "other",
    unheard_of: "other",
    "tools.0": "tools_server",
    "tools.1": "other",
    "messages.1.content.0": "foreign_block",
    "messages.1": "prefill",
  });
  t.notOk("nothing" in told);
  t.match(asked.turns[1]?.parts, [{ kind: "foreign", protocol: NAME, name: "server_tool_use" }]);
});

t.test("what the vendor's tools have done names the tools that a request offers them by", async (t) => {
  const used = (...blocks: JsonObject[]) => parts(...blocks).map((part) => ("tools" in part ? part.tools : undefined));
  const call = (name: string) => ({ type: "server_tool_use", id: "s", name, input: {} });
  const result = (type: string) => ({ type, tool_use_id: "s", content: [] });
  for (const made of ["bash", "text_editor"]) {
    const tools = [`${made}_code_execution`, "code_execution"];
    t.same(used(call(tools[0] as string), result(`${tools[0]}_tool_result`)), [tools, tools]);
  }
  t.same(used(call("web_fetch"), result("web_fetch_tool_result")), Array(2).fill(["web_fetch", "web_fetch"]));
  t.same(used(call("bash_tool")), [["bash_tool", "bash_tool"]], "only code execution has such names");
  const remote = { type: "mcp_tool_use", id: "s", name: "f", server_name: "m", input: {} };
  t.same(used(remote, result("mcp_tool_result")), Array(2).fill(["mcp_servers"]));
  t.same(used({ type: "container_upload", file_id: "f" }), [undefined]);
});

t.test("media in another protocol's form, or from an unknown source, is no block that can be left out", async (t) => {
  for (const block of [
    { type: "image_url", image_url: { url: "data:image/png;base64,aGk=" } },
    { type: "image", source: { type: "unheard_of" } },
  ]) {
    const asked = read(question({ messages: [{ role: "user", content: [block] }] }));
    t.same(uses(asked)["messages.0.content.0"], "foreign_media");
  }
});

t.test("a schema for the answer is read from its new and its old member", async (t) => {
  const format = { type: "json_schema", schema: { type: "object" } };
  const from = (more: JsonObject) => {
    const asked = read(question(more));
    return [asked.format?.schema?.text, asked.uses.find(({ feature }) => feature === "json_schema")?.path];
  };
  t.same(from({ output_config: { format } }), ['{"type":"object"}', "output_config.format"]);
  t.same(from({ output_format: format }), ['{"type":"object"}', "output_format"]);
});

t.test("wrong values are refused with their path", async (t) => {
  const refused = (body: JsonObject): string | undefined => {
    try {
      read(body);
    } catch (error) {
      return error instanceof GatewayError && error.status === 400 ? error.param : String(error);
    }
    return "accepted";
  };
  const block = (each: JsonObject) => question({ messages: [{ role: "user", content: [each] }] });
  t.equal(refused({ model: "m", max_tokens: 1 }), "messages");
  t.equal(refused({ model: "m", messages: [] }), "max_tokens");
  t.equal(refused(question({ max_tokens: 0 })), "max_tokens");
  t.equal(refused(question({ compaction: { type: "summarize" } })), "compaction");
  t.equal(refused(question({ max_tokens: "5" })), "max_tokens");
  t.equal(refused(question({ messages: [{ role: "tool", content: "x" }] })), "messages.0.role");
  t.equal(refused(question({ messages: [{ role: "user" }] })), "messages.0.content");
  t.equal(refused(block({ text: "x" })), "messages.0.content.0.type");
  t.equal(refused(block({ type: "text" })), "messages.0.content.0.text");
  t.equal(refused(block({ type: "tool_use", id: "a", name: "f", input: [1] })), "messages.0.content.0.input");
  t.equal(refused(question({ stop_sequences: [1] })), "stop_sequences");
  t.equal(refused(question({ tool_choice: { type: "often" } })), "tool_choice.type");
  t.equal(refused(question({ tools: [{ input_schema: {} }] })), "tools.0.name");
  t.equal(refused(question({ output_config: { format: { type: "json" } } })), "output_config.format");
});

/** The path that a request is refused for; undefined: it was read. */
function refusedAt(body: JsonObject): string | undefined {
  try {
    read(body);
  } catch (error) {
    return error instanceof GatewayError && error.code === "invalid_field" ? error.param : String(error);
  }
  return undefined;
}
const asked = (...content: JsonObject[]): JsonObject => question({ messages: [{ role: "user", content }] });

t.test("a member of a wrong type is refused with its path, never left out", async (t) => {
  const tool = (more: JsonObject) => question({ tools: [{ name: "f", input_schema: {}, ...more }] });
  const search = (more: JsonObject) => question({ tools: [{ type: "web_search_20250305", ...more }] });
  const document = (more: JsonObject) =>
    asked({ type: "document", source: { type: "url", url: "https://d" }, ...more });
  const cases: readonly [body: JsonObject, path: string][] = [
    [question({ thinking: "enabled" }), "thinking"],
    [question({ thinking: {} }), "thinking.type"],
    [question({ thinking: { type: 1 } }), "thinking.type"],
    [question({ thinking: { type: "enabled", budget_tokens: "9" } }), "thinking.budget_tokens"],
    [question({ thinking: { type: "adaptive", display: true } }), "thinking.display"],
    [question({ output_config: [] }), "output_config"],
    [question({ output_config: { effort: 5 } }), "output_config.effort"],
    [question({ output_config: { format: "x" } }), "output_config.format"],
    [question({ output_format: "x" }), "output_format"],
    [question({ output_format: { type: "json_schema", schema: [1] } }), "output_format"],
    [question({ metadata: "m" }), "metadata"],
    [question({ metadata: { user_id: 1 } }), "metadata.user_id"],
    [question({ service_tier: 1 }), "service_tier"],
    [question({ stream: "yes" }), "stream"],
    [question({ cache_control: "ephemeral" }), "cache_control"],
    [question({ tool_choice: "any" }), "tool_choice"],
    [
      question({ tool_choice: { type: "any", disable_parallel_tool_use: "yes" } }),
      "tool_choice.disable_parallel_tool_use",
    ],
    [tool({ strict: "yes" }), "tools.0.strict"],
    [tool({ description: ["d"] }), "tools.0.description"],
    [tool({ input_schema: [1] }), "tools.0.input_schema"],
    [tool({ cache_control: { type: "ephemeral", ttl: 300 } }), "tools.0.cache_control.ttl"],
    [search({ allowed_domains: "a.com" }), "tools.0.allowed_domains"],
    [search({ blocked_domains: [1] }), "tools.0.blocked_domains"],
    [search({ max_uses: "3" }), "tools.0.max_uses"],
    [search({ user_location: "Ulm" }), "tools.0.user_location"],
    [search({ user_location: { type: "approximate", city: 1 } }), "tools.0.user_location.city"],
    [asked({ type: "tool_result", tool_use_id: "a", is_error: "yes" }), "messages.0.content.0.is_error"],
    [asked({ type: "text", text: "x", citations: {} }), "messages.0.content.0.citations"],
    [asked({ type: "thinking", thinking: "x", signature: 1 }), "messages.0.content.0.signature"],
    [asked({ type: "image" }), "messages.0.content.0.source"],
    [document({ title: 1 }), "messages.0.content.0.title"],
    [document({ citations: true }), "messages.0.content.0.citations"],
    [document({ citations: { enabled: "yes" } }), "messages.0.content.0.citations.enabled"],
    [document({ source: { type: "base64", data: "aGk=", media_type: 1 } }), "messages.0.content.0.source.media_type"],
  ];
  for (const [body, path] of cases) t.equal(refusedAt(body), path);
});

t.test("an unknown member is declared by its path, wherever it is", async (t) => {
  const more = { unheard_of: 1 };
  const others = (body: JsonObject) =>
    read(body)
      .uses.filter(({ feature }) => feature === "other")
      .map(({ path }) => path);
  const at = "messages.0.content.0";
  const source = { type: "base64", media_type: "application/pdf", data: "aGk=" };
  const cases: readonly [body: JsonObject, paths: string[]][] = [
    [
      question({ thinking: { type: "adaptive", budget_tokens: 5, ...more } }),
      ["thinking.budget_tokens", "thinking.unheard_of"],
    ],
    [question({ thinking: { type: "between_tools" } }), ["thinking.type"]],
    [question({ thinking: { type: "adaptive", display: "as poetry" } }), ["thinking.display"]],
    [question({ tool_choice: { type: "auto", name: "f", ...more } }), ["tool_choice.name", "tool_choice.unheard_of"]],
    [
      question({ cache_control: { type: "ephemeral", ttl: "7d", scope: "global" } }),
      ["cache_control.ttl", "cache_control.scope"],
    ],
    [question({ cache_control: { type: "eternal" } }), ["cache_control.type"]],
    [question({ metadata: more }), ["metadata.unheard_of"]],
    [
      question({ output_config: { format: { type: "json_schema", schema: {}, ...more } } }),
      ["output_config.format.unheard_of"],
    ],
    [
      question({ tools: [{ type: "web_search_20250305", user_location: { type: "exact" } }] }),
      ["tools.0.user_location.type"],
    ],
    [
      question({ messages: [{ role: "assistant", content: [{ type: "redacted_thinking", data: "x", ...more }] }] }),
      [`${at}.unheard_of`],
    ],
    [asked({ type: "document", source: { ...source, ...more } }), [`${at}.source.unheard_of`]],
    [asked({ type: "document", source: { ...source, url: "https://d" } }), [`${at}.source.url`]],
    [asked({ type: "document", source, citations: { enabled: false, ...more } }), [`${at}.citations.unheard_of`]],
    [asked({ type: "document", source: { type: "content", content: "x", ...more } }), [`${at}.source.unheard_of`]],
    [asked({ type: "image", source: { ...source, media_type: "image/png" }, title: "T" }), [`${at}.title`]],
  ];
  for (const [body, paths] of cases) t.same(others(body), paths);
  const formats = {
    output_config: { format: { type: "json_schema", schema: {} } },
    output_format: { type: "json_schema", schema: {} },
  };
  t.same(others(question(formats)), ["output_format"]);
});

t.test("a body that is not a JSON object is refused as such", async (t) => {
  for (const body of ['{"a":', "[]", "7"])
    t.throws(() => read(body, { streaming: false }), { code: "invalid_json" }, body);
});

t.test("tokens are counted for requests without a limit", async (t) => {
  const { task, maxTokens } = read({ model: "m", messages: [{ role: "user", content: "Hi" }] }, { task: "count" });
  t.same([task, maxTokens], ["count", undefined]);
  t.ok(read(question({ max_tokens: 0 }), { task: "count" }), "nothing is generated in any case");
});

t.test("any request is decoded or refused with the path of the field", async (t) => {
  const odd = [null, [], {}, "", 0, -1, 1.5, true, "x", [null], [{}], { type: "text" }, 1e21, [[]]];
  const damaged = (value: unknown, cast: (limit: number) => number): unknown => {
    if (cast(40) === 0) return odd[cast(odd.length)];
    if (Array.isArray(value)) return value.map((each) => damaged(each, cast));
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, damaged(each, cast)]));
  };
  const counts = { read: 0, refused: 0 };
  const faults: string[] = [];
  for (let seed = 1; seed <= 600; seed++) {
    const cast = dice(seed);
    const body = Object.entries(JSON.parse(CLIENT_BODIES["anthropic-messages"].body) as JsonObject);
    try {
      read(Object.fromEntries(body.map(([name, value]) => [name, damaged(value, cast)])));
      counts.read++;
    } catch (error) {
      counts.refused++;
      if (!(error instanceof GatewayError) || !error.param) faults.push(`${seed}: ${(error as Error).stack}`);
    }
  }
  t.same(faults, []);
  t.ok(counts.read > 20 && counts.refused > 20, JSON.stringify(counts));
});

const text = { type: "text", text: "x" };
const blocks: Record<string, JsonObject> = {
  text,
  image: { type: "image", source: { type: "url", url: "https://i" } },
  document: { type: "document", source: { type: "url", url: "https://d" } },
  search_result: { type: "search_result", title: "T", source: "S", content: [text] },
  thinking: { type: "thinking", thinking: "x", signature: "x" },
  redacted_thinking: { type: "redacted_thinking", data: "x" },
  tool_use: { type: "tool_use", id: "a", name: "f", input: {} },
  tool_result: { type: "tool_result", tool_use_id: "a" },
  tool_reference: { type: "tool_reference", tool_name: "f" },
  brand_new: { type: "brand_new" },
};
/** A request with a block, and the block's path in it. */
const places: Record<string, (block: JsonObject) => [body: JsonObject, at: string]> = {
  system: (block) => [question({ system: [block] }), "system.0"],
  user: (block) => [question({ messages: [{ role: "user", content: [block] }] }), "messages.0.content.0"],
  assistant: (block) => [question({ messages: [{ role: "assistant", content: [block] }] }), "messages.0.content.0"],
  "system in place": (block) => [
    question({ messages: [{ role: "system", content: [block] }] }),
    "messages.0.content.0",
  ],
  result: (block) => {
    const content = [{ type: "tool_result", tool_use_id: "a", content: [block] }];
    return [question({ messages: [{ role: "user", content }] }), "messages.0.content.0.content.0"];
  },
};

t.test("thinking and calls are the assistant's, results the user's: elsewhere they are refused", async (t) => {
  const homes: Record<string, string> = {
    thinking: "assistant",
    redacted_thinking: "assistant",
    tool_use: "assistant",
    tool_result: "user",
  };
  for (const [type, block] of Object.entries(blocks))
    for (const [place, asking] of Object.entries(places)) {
      const [body, at] = asking(block);
      const home = homes[type] ?? place;
      if (home === place) t.ok(read(body), `${type} in ${place}`);
      else t.throws(() => read(body), { code: "invalid_field", param: at }, `${type} in ${place}`);
    }
});

t.test("texts within a document or a search result may have a cache mark; only the mark is left out", async (t) => {
  const marked = { ...text, cache_control: { type: "ephemeral" }, citations: null };
  const made = {
    document: { type: "document", source: { type: "content", content: [text, marked] } },
    search_result: { type: "search_result", title: "T", source: "S", content: [text, marked] },
  };
  const at = { document: "source.content", search_result: "content" };
  for (const [type, block] of Object.entries(made)) {
    const asked = read(question({ messages: [{ role: "user", content: [block] }] }));
    const [part] = asked.turns[0]?.parts ?? [];
    t.match(JSON.stringify(part), /x\\n\\nx/, type);
    const path = `messages.0.content.0.${at[type as keyof typeof at]}.1.cache_control`;
    t.match(
      asked.uses.filter(({ feature }) => feature === "other"),
      [{ path }],
    );
  }
});

/** Sent to be refused: a message is not an object. The vendor answered 400, too. */
const WRONG = "anthropic/dd-trace-py__cassettes.anthropic_completion_error__0";

t.test("every recorded request is decoded, and declares only features that the table of fields has", async (t) => {
  const known = new Set(translation.request.fields.map(([, feature]) => feature));
  const unknown = requests()
    .filter(({ id }) => id !== WRONG)
    .flatMap(({ id, body, task }) =>
      read(body, { task }).uses.map(({ feature, path }) => ({ feature, at: `${id}: ${path}` })),
    )
    .filter(({ feature }) => !known.has(feature));
  t.same(unknown, []);
});
