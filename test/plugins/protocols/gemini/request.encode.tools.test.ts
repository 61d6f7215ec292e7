import t from "tap";
import type { Tool, ToolChoice } from "../../../../src/translation/conversation.ts";
import { RawJson } from "../../../../src/wire/exact.ts";
import { assistant, call, refusal, text, user, written } from "./request.asked.ts";

const tool = (name: string, more: object = {}): Tool =>
  ({ kind: "function", at: `tool ${name}`, name, ...more }) as Tool;

t.test("functions are declared together, their schemas unchanged (50)", async (t) => {
  const schema = '{"type":"object","oneOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"pattern":"^A+$","minimum":1.0}}}';
  const { text: body, body: json } = written({
    tools: [tool("f", { description: "d", parameters: new RawJson(schema) }), tool("g")],
  });
  t.ok(body.includes(`"parametersJsonSchema":${schema}`));
  t.match(json.tools, [{ functionDeclarations: [{ name: "f", description: "d" }, { name: "g" }] }]);
  t.equal(json.toolConfig, undefined);
});

t.test("choices are modes (37)", async (t) => {
  const tools = [tool("f"), tool("g")];
  const mode = (toolChoice: NonNullable<Parameters<typeof written>[0]["toolChoice"]>) =>
    (written({ tools, toolChoice }).body.toolConfig as { functionCallingConfig: unknown }).functionCallingConfig;
  t.same(mode({ mode: "auto" }), { mode: "AUTO" });
  t.same(mode({ mode: "none" }), { mode: "NONE" });
  t.same(mode({ mode: "required" }), { mode: "ANY" });
  t.same(mode({ mode: "named", name: "f" }), { mode: "ANY", allowedFunctionNames: ["f"] });
  t.same(mode({ mode: "allowed", required: true, names: ["f", "g"] }), {
    mode: "ANY",
    allowedFunctionNames: ["f", "g"],
  });
  t.same(mode({ mode: "allowed", required: false, names: ["f"] }), { mode: "VALIDATED", allowedFunctionNames: ["f"] });
});

t.test("a tool that the vendor runs cannot be chosen by name: it is left to the model, and said", async (t) => {
  const search: Tool = { kind: "web_search", at: "tools.0" };
  const toolChoice = { mode: "named", name: "web_search", server: true } as const;
  const uses = [{ feature: "tool_choice", path: "choice" }] as const;
  const alone = written({ tools: [search], toolChoice, uses: [...uses] });
  t.same(alone.body.tools, [{ googleSearch: {} }]);
  t.equal(alone.body.toolConfig, undefined);
  t.match(alone.dropped, [/^choice: /]);
  const strict = written({ tools: [search, tool("f", { strict: true })], toolChoice, uses: [...uses] });
  t.match(strict.body.toolConfig, { functionCallingConfig: { mode: "VALIDATED" } });
  t.match(strict.dropped, [/^choice: /]);
});

t.test("a search that may not be used is left out, and said where others may", async (t) => {
  const search: Tool = { kind: "web_search", at: "tools.1" };
  const searched = (toolChoice: ToolChoice, tool = search) => {
    const { body, changed } = written({ tools: [{ kind: "function", name: "f", at: "tools.0" }, tool], toolChoice });
    return [body.tools?.length === 2, Object.keys(body.toolConfig ?? {}), changed];
  };
  const [calling, shown] = ["functionCallingConfig", "includeServerSideToolInvocations"];
  t.same(searched({ mode: "none" }), [false, [calling], []]);
  t.match(searched({ mode: "named", name: "f" }), [false, [calling], [/^tools\.1: /]]);
  t.match(searched({ mode: "allowed", required: false, names: ["f"] }), [false, [calling], [/^tools\.1: /]]);
  t.same(searched({ mode: "none" }, { ...search, apart: true }), [true, [calling, shown], []]);
  t.notOk("tools" in written({ tools: [search], toolChoice: { mode: "none" } }).body);
});

t.test("a search that is chosen is left to the model, and said", async (t) => {
  const search: Tool = { kind: "web_search", at: "tools.1" };
  const chosen = (tools: Tool[], toolChoice: ToolChoice) => {
    const { body, changed } = written({ tools, toolChoice });
    return [body.toolConfig, changed];
  };
  const shown = { includeServerSideToolInvocations: true };
  const only = (required: boolean): ToolChoice => ({ mode: "allowed", required, names: ["web_search"] });
  t.match(chosen([search], { mode: "required" }), [undefined, [/^tool_choice: web search/]]);
  t.match(chosen([search], only(true)), [undefined, [/^tool_choice: web search/]]);
  t.same(chosen([search], only(false)), [undefined, []], "there is nothing else to choose");
  t.match(chosen([tool("f"), search], only(false)), [shown, [/^tool_choice: web search/]]);
  const both: ToolChoice = { mode: "allowed", required: false, names: ["web_search", "f"] };
  t.same(chosen([tool("f"), search], both), [
    { functionCallingConfig: { mode: "VALIDATED", allowedFunctionNames: ["f"] }, ...shown },
    [],
  ]);
  t.match(
    chosen([tool("web_search"), search], only(true)),
    [{ functionCallingConfig: { mode: "ANY", allowedFunctionNames: ["web_search"] } }, []],
    "a function may be called so",
  );
});

t.test("a choice among no functions is not sent", async (t) => {
  t.equal(written({ toolChoice: { mode: "auto" } }).body.toolConfig, undefined);
  t.equal(written({ toolChoice: { mode: "none" } }).body.toolConfig, undefined);
});

t.test("strict functions make the mode VALIDATED, which is declared where others are not strict", async (t) => {
  const { body, changed } = written({ tools: [tool("f", { strict: true })] });
  t.same(body.toolConfig, { functionCallingConfig: { mode: "VALIDATED" } });
  t.same(changed, []);
  const mixed = written({ tools: [tool("f", { strict: true }), tool("g")] });
  t.same(mixed.body.toolConfig, { functionCallingConfig: { mode: "VALIDATED" } });
  t.match(mixed.changed, [/^tool f: /]);
  const forced = written({ tools: [tool("f", { strict: true })], toolChoice: { mode: "required" } });
  t.same(forced.body.toolConfig, { functionCallingConfig: { mode: "ANY" } });
  t.same(forced.changed, []);
});

t.test("a tool that takes free text is a function of one string, and known again", async (t) => {
  const { body, names, dropped } = written({
    tools: [{ kind: "custom", at: "tools.0", name: "patch", grammar: { syntax: "lark" } }],
    toolChoice: { mode: "named", name: "patch", custom: true },
    turns: [user(text("Go")), assistant(call("a", "patch", 'a "quoted" text', { custom: true }))],
  });
  t.match(body.tools, [
    {
      functionDeclarations: [
        {
          name: "patch",
          parametersJsonSchema: { type: "object", properties: { input: { type: "string" } }, required: ["input"] },
        },
      ],
    },
  ]);
  t.match(body.contents[1]?.parts[0], { functionCall: { name: "patch", args: { input: 'a "quoted" text' } } });
  t.same(names.original("patch"), { name: "patch", custom: true });
  t.match(dropped, [/^tools\.0: a grammar/]);
});

t.test("a tool in a namespace bears it in front, and is known again", async (t) => {
  const { body, names } = written({
    tools: [tool("run", { namespace: "mcp" }), tool("run")],
    turns: [user(text("Go")), assistant(call("a", "run", "{}", { namespace: "mcp" }))],
  });
  t.match(body.tools, [{ functionDeclarations: [{ name: "mcp__run" }, { name: "run" }] }]);
  t.match(body.contents[1]?.parts[0], { functionCall: { name: "mcp__run" } });
  t.same(names.original("mcp__run"), { name: "run", namespace: "mcp" });
  t.same(names.original("run"), { name: "run" });
});

t.test("web search is Google Search, without what it does not take", async (t) => {
  const search: Tool = { kind: "web_search", at: "tools.0", allowed: ["a.com"], maxUses: 3 };
  const { body, dropped } = written({ tools: [search] });
  t.same(body.tools, [{ googleSearch: {} }]);
  t.same(body.toolConfig, undefined);
  t.match(dropped, [/^tools\.0: .*list of domains/, /^tools\.0: .*limit of searches/]);
  const told = written({ tools: [{ ...search, paths: { allowed: "tools.0.a", maxUses: "tools.0.b" } }] });
  t.match(told.dropped, [/^tools\.0\.a: .*list of domains/, /^tools\.0\.b: .*limit of searches/]);
});

t.test("with functions beside it the vendor's own tool must be shown", async (t) => {
  const tools: Tool[] = [tool("f"), { kind: "web_search", at: "w" }];
  t.same(written({ tools }).body.toolConfig, { includeServerSideToolInvocations: true });
  t.equal(written({ tools }, { thinking: "budget" }).body.toolConfig, undefined);
});

t.test("another vendor's tool is refused", async (t) => {
  const server: Tool = { kind: "server", at: "tools.0", protocol: "some-client", name: "computer", json: {} };
  t.match(
    refusal(() => written({ tools: [server] })),
    { message: /^tools\.0: .*computer/ },
  );
});
