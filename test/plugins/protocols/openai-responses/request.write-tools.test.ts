import t from "tap";
import type { Tool, ToolChoice } from "../../../../src/translation/conversation.ts";
import { RawJson } from "../../../../src/wire/exact.ts";
import { plain, written } from "./request.asking.ts";

const write = (tools: Tool[], toolChoice?: ToolChoice) => {
  const { body, losses, text } = written(plain({ tools, ...(toolChoice && { toolChoice }) }));
  return { tools: body["tools"], choice: body["tool_choice"], dropped: losses.dropped, text };
};
const named = (name: string, more: object = {}): Tool => ({ kind: "function", name, at: name, ...more });
const search: Tool = { kind: "web_search", at: "w" };

t.test("tools are flat, always say whether they are strict, and keep the text of their schema", async (t) => {
  const parameters = new RawJson('{ "type":"object", "maximum":12345678901234567890 }');
  const { tools, text } = write([named("f", { parameters, description: "F", strict: true }), named("g")]);
  t.match(text, `"parameters":${parameters.text},"strict":true`);
  t.match(tools, [
    { type: "function", name: "f", description: "F", strict: true },
    { type: "function", name: "g", parameters: { type: "object", properties: {} }, strict: false },
  ]);
});

t.test("neighbours of a namespace stand in it together", async (t) => {
  const custom: Tool = { kind: "custom", name: "exec", namespace: "n", grammar: { type: "text" }, at: "c" };
  const { tools } = write([named("f", { namespace: "n" }), custom, named("g"), named("h", { namespace: "m" })]);
  t.match(tools, [
    {
      type: "namespace",
      name: "n",
      tools: [{ name: "f" }, { type: "custom", name: "exec", format: { type: "text" } }],
    },
    { type: "function", name: "g" },
    { type: "namespace", name: "m", tools: [{ name: "h" }] },
  ]);
});

t.test("a grammar stands beside its type, however another protocol has it", async (t) => {
  const grammar = { syntax: "lark", definition: "start: /a/" };
  const tool = (grammar: unknown): Tool => ({ kind: "custom", name: "c", grammar, at: "c" });
  for (const form of [
    { type: "grammar", ...grammar },
    { type: "grammar", grammar },
  ])
    t.same(write([tool(form)]).tools, [{ type: "custom", name: "c", format: { type: "grammar", ...grammar } }]);
});

t.test("web search, with what it cannot say declared", async (t) => {
  const tool: Tool = {
    ...search,
    allowed: ["a.example"],
    blocked: ["b.example"],
    maxUses: 3,
    size: "low",
    location: { country: "NO" },
  };
  const { tools, dropped } = write([tool]);
  t.same(tools, [
    {
      type: "web_search",
      filters: { allowed_domains: ["a.example"] },
      search_context_size: "low",
      user_location: { type: "approximate", country: "NO" },
    },
  ]);
  t.same(dropped, ["w"]);
  t.same(write([{ ...tool, paths: { blocked: "w.blocked", maxUses: "w.uses" } }]).dropped, ["w.blocked", "w.uses"]);
  t.same(write([search]).tools, [{ type: "web_search" }]);
});

t.test("the vendor's own tools are written back, another vendor's are not", async (t) => {
  const server = (protocol: string): Tool => ({
    kind: "server",
    protocol,
    name: "s",
    json: { type: "s", x: 1 },
    at: "s",
  });
  t.same(write([server("openai-responses"), server("gemini")]).tools, [{ type: "s", x: 1 }]);
});

t.test("a mark for the cache has no place on a tool", async (t) => {
  t.same(write([named("f", { cache: {} })]).dropped, ["f"]);
});

t.test("choices", async (t) => {
  const custom: Tool = { kind: "custom", name: "c", at: "c" };
  const choice = (toolChoice: ToolChoice, tools: Tool[] = [named("f"), custom, search]) =>
    write(tools, toolChoice).choice;
  for (const mode of ["auto", "none", "required"] as const) t.equal(choice({ mode }), mode);
  t.same(choice({ mode: "named", name: "f" }), { type: "function", name: "f" });
  t.same(choice({ mode: "named", name: "c", custom: true }), { type: "custom", name: "c" });
  t.same(choice({ mode: "named", name: "file_search", server: true }), { type: "file_search" });
  t.same(choice({ mode: "allowed", required: true, names: ["f", "c", "web_search"] }), {
    type: "allowed_tools",
    mode: "required",
    tools: [{ type: "function", name: "f" }, { type: "custom", name: "c" }, { type: "web_search" }],
  });
});

t.test("web search cannot be chosen by itself: it is the only tool that may be called", async (t) => {
  const chosen: ToolChoice = { mode: "named", name: "web_search", server: true };
  t.equal(write([search], chosen).choice, "required");
  t.same(write([named("f"), search], chosen).choice, {
    type: "allowed_tools",
    mode: "required",
    tools: [{ type: "web_search" }],
  });
});

t.test("a name that does not fit is the same in the tool and in the choice", async (t) => {
  const name = `long.${"x".repeat(80)}`;
  const { tools, choice } = write([named(name)], { mode: "named", name });
  const [tool] = tools as { name: string }[];
  t.match(tool?.name, /^[\w-]{1,64}$/);
  t.equal((choice as { name: string }).name, tool?.name);
});
