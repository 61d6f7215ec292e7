import t from "tap";
import { RawJson } from "../../../../src/wire/exact.ts";
import { INPUT, read, says } from "./request.asking.ts";

const tools = (...tools: object[]) => read({ ...INPUT, tools });

t.test("a schema is kept as its text", async (t) => {
  const schema = '{ "type":"object", "properties":{"a":{"type":"integer","maximum":12345678901234567890}} }';
  const text = `{"model":"any","input":"Hi","tools":[{"type":"function","name":"f","description":"F","parameters":${schema},"strict":true}]}`;
  const conversation = read(text);
  t.same(conversation.tools, [
    { kind: "function", name: "f", description: "F", parameters: new RawJson(schema), strict: true, at: "tools.0" },
  ]);
  t.same(says(conversation), ["tools tools.0", "tools_strict tools.0.strict"]);
});

t.test("tools in a namespace know it, and what only the namespace says is said to be lost", async (t) => {
  const conversation = tools({
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
      grammar: { type: "grammar", syntax: "lark", definition: "start: /.+/" },
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

t.test("web search has one meaning under all its names", async (t) => {
  for (const type of ["web_search", "web_search_2025_08_26", "web_search_preview", "web_search_preview_2025_03_11"]) {
    const conversation = tools({
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

t.test("what agents always offer is no reason for a refusal, and what changes a tool is said", async (t) => {
  const conversation = tools(
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

t.test("a choice is a word, a tool, or some of them", async (t) => {
  const choice = (tool_choice: unknown) => {
    const conversation = read({ ...INPUT, tool_choice });
    return [conversation.toolChoice, says(conversation)];
  };
  const uses = ["tool_choice tool_choice"];
  for (const mode of ["auto", "none", "required"]) t.same(choice(mode), [{ mode }, uses], mode);
  t.same(choice({ type: "function", name: "f" }), [{ mode: "named", name: "f" }, uses]);
  t.same(choice({ type: "custom", name: "c" }), [{ mode: "named", name: "c", custom: true }, uses]);
  t.same(choice({ type: "web_search_preview" }), [{ mode: "named", name: "web_search", server: true }, uses]);
  t.same(choice({ type: "tool_search" }), [
    { mode: "named", name: "tool_search", server: true },
    [...uses, "tools_server tool_choice"],
  ]);
  const allowed = [{ type: "function", name: "f" }, { type: "image_generation" }];
  t.same(choice({ type: "allowed_tools", mode: "required", tools: allowed }), [
    { mode: "allowed", required: true, names: ["f", "image_generation"] },
    [...uses, "tool_choice_allowed tool_choice"],
  ]);
});

t.test("free text is no grammar, and what nobody knows of one is said", async (t) => {
  const tool = (format: object) => read({ ...INPUT, tools: [{ type: "custom", name: "c", format }] });
  t.same(tool({ type: "text" }).tools, [{ kind: "custom", name: "c", at: "tools.0" }]);
  t.same(says(tool({ type: "text" })), ["tools_custom tools.0"]);
  const grammar = { type: "grammar", syntax: "lark", definition: "start: /a/" };
  const odd = tool({ ...grammar, flags: "i" });
  t.same(odd.tools, [{ kind: "custom", name: "c", grammar, at: "tools.0" }]);
  t.same(says(odd), ["tools_custom tools.0", "other tools.0.format.flags"]);
});
