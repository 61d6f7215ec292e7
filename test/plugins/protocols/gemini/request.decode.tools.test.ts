import t from "tap";
import { read, refusal, saidOf } from "./request.asked.ts";

const tools = (...list: unknown[]) => read({ contents: [], tools: list }).tools;
const choice = (functionCallingConfig: unknown) =>
  read({ contents: [], toolConfig: { functionCallingConfig } }).toolChoice;

t.test("functions are read with their schemas as JSON Schema", async (t) => {
  const schema = '{"type":"object","properties":{"a":{"minimum":1.0}}}';
  const { tools: both } = read(
    `{"contents":[],"tools":[{"function_declarations":[
      {"name":"f","description":"d","parametersJsonSchema":${schema}},
      {"name":"g","parameters":{"type":"OBJECT","properties":{"b":{"type":"INTEGER"}}}},
      {"name":"h"}]}]}`,
  );
  t.match(both, [
    {
      kind: "function",
      name: "f",
      description: "d",
      parameters: { text: schema },
      at: "tools.0.function_declarations.0",
    },
    { name: "g", parameters: { text: '{"type":"object","properties":{"b":{"type":"integer"}}}' } },
    { name: "h", parameters: undefined },
  ]);
});

t.test("Google Search is web search, any other tool is the vendor's own", async (t) => {
  t.match(tools({ googleSearch: { excludeDomains: ["a.com"] } }, { code_execution: {}, newTool: { a: 1 } }), [
    {
      kind: "web_search",
      blocked: ["a.com"],
      at: "tools.0.googleSearch",
      paths: { blocked: "tools.0.googleSearch.excludeDomains" },
      apart: true,
    },
    { kind: "server", protocol: "gemini", name: "code_execution", at: "tools.1.code_execution" },
    { kind: "server", name: "newTool", json: { a: 1 } },
  ]);
  const search = { googleSearch: { timeRangeFilter: {} } };
  t.same(saidOf({ tools: [search, { urlContext: {} }, { functionDeclarations: [{ name: "f", response: {} }] }] }), [
    "web_search tools.0.googleSearch",
    "other tools.0.googleSearch.timeRangeFilter",
    "tools_server tools.1.urlContext",
    "tools tools.2.functionDeclarations.0",
    "other tools.2.functionDeclarations.0.response",
  ]);
});

t.test("modes are a choice among tools", async (t) => {
  t.same(choice({ mode: "AUTO" }), { mode: "auto" });
  t.same(choice({ mode: "none" }), { mode: "none" });
  t.same(choice({ mode: "ANY" }), { mode: "required" });
  t.same(choice({ mode: "ANY", allowedFunctionNames: ["f"] }), { mode: "named", name: "f" });
  t.same(choice({ mode: "ANY", allowed_function_names: ["f", "g"] }), {
    mode: "allowed",
    required: true,
    names: ["f", "g"],
  });
  t.same(choice({ mode: "VALIDATED" }), { mode: "auto" });
  t.same(choice({ mode: "VALIDATED", allowedFunctionNames: ["f"] }), {
    mode: "allowed",
    required: false,
    names: ["f"],
  });
  t.equal(choice({}), undefined);
  t.match(
    refusal(() => choice({ mode: "SOME" })),
    { param: "toolConfig.functionCallingConfig.mode" },
  );
});

t.test("what a mode means beyond the choice is said", async (t) => {
  t.same(saidOf({ toolConfig: { functionCallingConfig: { mode: "VALIDATED" }, retrievalConfig: {} } }), [
    "tool_choice toolConfig.functionCallingConfig",
    "other toolConfig.functionCallingConfig.mode",
    "other toolConfig.retrievalConfig",
  ]);
});
