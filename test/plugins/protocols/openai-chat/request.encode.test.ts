import t from "tap";
import openaiChat from "../../../../plugins/protocols/openai-chat/index.ts";
import { type Facts } from "../../../../src/core/marketplace.ts";
import type { Translation } from "../../../../src/translation/codec.ts";
import type { Conversation, Part, Text, ToolCall, Turn } from "../../../../src/translation/conversation.ts";
import type { Opaque } from "../../../../src/translation/events.ts";
import { ToolNames } from "../../../../src/translation/names.ts";
import { runAtOnce } from "../../../../src/translation/steps.ts";
import { RawJson } from "../../../../src/wire/exact.ts";
import { runLinear } from "../../../support/linear-work.ts";
import { terms } from "./fixture.ts";

const { request } = openaiChat.translation as Translation;

type Body = Record<string, unknown> & { messages: Record<string, unknown>[] };

/** What a conversation of another protocol's client becomes. */
function write(more: Partial<Conversation>, facts: Facts = {}, names?: ToolNames, model?: string) {
  const to = terms(facts, model);
  const conversation: Conversation = {
    protocol: "another",
    task: "generate",
    stream: false,
    turns: [],
    tools: [],
    uses: [],
    ...more,
  };
  const encoded = runAtOnce(request.encode(conversation, names ? { ...to, names } : to));
  return { body: JSON.parse(encoded.body) as Body, text: encoded.body, encoded, losses: to.losses };
}

const turn = (role: Turn["role"], ...parts: Part[]): Turn => ({ role, parts, at: "at" });
const text = (text: string, more: Partial<Text> = {}): Text => ({ kind: "text", text, at: "text", ...more });
const call = (id: string, more: Partial<ToolCall> = {}): ToolCall => ({
  kind: "tool_call",
  id,
  name: "one",
  arguments: "{}",
  at: "call",
  ...more,
});
const result = (callId: string, parts: Part[], more: object = {}): Part => ({
  kind: "tool_result",
  callId,
  parts,
  at: "result",
  ...more,
});
const messages = (...turns: Turn[]) => write({ turns }).body.messages;

t.test("a request goes to chat completions under the vendor's name of the model", async (t) => {
  const { encoded, body } = write({ turns: [turn("user", text("Hello"))] });
  t.equal(encoded.operation.upstream("x"), "/chat/completions");
  t.same(body, { model: "vendor-model", messages: [{ role: "user", content: "Hello" }] });
});

t.test("a stream always requests its usage", async (t) => {
  t.match(write({ stream: true }).body, { stream: true, stream_options: { include_usage: true } });
});

const OPENAI = "gpt-4o";
const messagesTo = (model: string | undefined, ...turns: Turn[]) =>
  write({ turns }, {}, undefined, model).body.messages;

t.test("system and developer messages are the system's, in their positions", async (t) => {
  const turns = [
    turn("system", text("a"), text("b")),
    turn("developer", text("c")),
    turn("user", text("d")),
    turn("developer", text("e")),
    turn("system", text("f")),
  ];
  const parts = [
    { type: "text", text: "a" },
    { type: "text", text: "b" },
  ];
  t.same(
    messagesTo(OPENAI, ...turns),
    [
      { role: "system", content: parts },
      { role: "system", content: "c" },
      { role: "user", content: "d" },
      { role: "system", content: "e" },
      { role: "system", content: "f" },
    ],
    "OpenAI takes any number, and lists of parts",
  );
  t.same(
    messages(...turns),
    [
      { role: "system", content: "a\n\nb\n\nc" },
      { role: "user", content: "d" },
      { role: "system", content: "e\n\nf" },
    ],
    "other models' templates take one, and many servers only a string",
  );
});

t.test(
  "a system message between turns is the user's for models that take only the first, which is declared",
  async (t) => {
    const turns = [turn("system", text("a")), turn("user", text("b")), { ...turn("developer", text("c")), at: "late" }];
    const sent = (model: string, facts: Facts = {}) => {
      const { body, losses } = write({ turns }, facts, undefined, model);
      return [body.messages.at(-1), losses.changed];
    };
    const asUser = [{ role: "user", content: "<system-reminder>\nc\n</system-reminder>" }, ["late"]];
    const asSystem = [{ role: "system", content: "c" }, []];
    const takeFirst = ["qwen3.6:27b", "Qwen/Qwen3.5-35B-A3B", "qwen4", "MiniMax-M2.5", "minimax/minimax-m3"];
    for (const model of takeFirst) t.same(sent(model), asUser, model);
    for (const model of ["qwen3:8b", "qwen2.5-coder", "deepseek-chat", OPENAI]) t.same(sent(model), asSystem, model);
    t.same(sent("another", { system_in_place: false }), asUser);
    t.same(sent("qwen3.6", { system_in_place: true }), asSystem);
  },
);

t.test("cache marks are breakpoints on the same parts", async (t) => {
  const system = turn("system", text("a", { cache: {} }), text("b", { cache: { ttl: "1h" } }));
  const takes = { cache_marks: true };
  const messagesOf = (...turns: Turn[]) => write({ turns }, takes).body.messages;
  t.same(messagesOf(system)[0]?.["content"], [
    { type: "text", text: "a", prompt_cache_breakpoint: { mode: "explicit" } },
    { type: "text", text: "b", prompt_cache_breakpoint: { mode: "explicit", ttl: "12h" } },
  ]);
  const marked = result("a", [text("1")], { cache: { ttl: "30m" } });
  t.match(messagesOf(turn("assistant", call("a")), turn("user", marked))[1], {
    content: [{ type: "text", text: "1", prompt_cache_breakpoint: { ttl: "30m" } }],
  });
});

t.test("consecutive turns of the assistant are one message", async (t) => {
  t.same(messages(turn("assistant", text("a")), turn("assistant", call("x")), turn("assistant", call("y"))), [
    {
      role: "assistant",
      content: "a",
      tool_calls: ["x", "y"].map((id) => ({ id, type: "function", function: { name: "one", arguments: "{}" } })),
    },
  ]);
});

t.test("results come first, also those of a later turn, and then the user's own text", async (t) => {
  const roles = messages(
    turn("assistant", call("x"), call("y")),
    turn("user", text("before"), result("x", [text("1")])),
    turn("user", result("y", [text("2")]), text("after")),
  ).map(({ role, content, tool_call_id }) => [role, tool_call_id ?? content]);
  t.same(roles, [
    ["assistant", null],
    ["tool", "x"],
    ["tool", "y"],
    ["user", "before"],
    ["user", "after"],
  ]);
});

t.test("no system message is between a call and its result", async (t) => {
  const roles = (...turns: Turn[]) => messages(turn("user", text("a")), ...turns).map(({ role }) => role);
  const [calls, one, two] = [
    turn("assistant", call("x"), call("y")),
    turn("user", result("x", [])),
    turn("user", result("y", [])),
  ];
  const late = turn("developer", text("b"));
  const after = ["user", "assistant", "tool", "tool", "system"];
  t.same(roles(calls, one, two, late), after);
  t.same(roles(calls, one, late, two), after);
  t.same(roles(calls, late, one, late, two), after, "they are one");
  t.same(roles(late, calls, one, two), ["user", "system", ...after.slice(1, 4)], "not where it is in no one's way");
});

t.test("an image in a result follows in a user message, and that is declared", async (t) => {
  const picture: Part = { kind: "media", media: "image", mime: "image/png", source: { base64: "AAAA" }, at: "picture" };
  const { body, losses } = write({
    turns: [
      turn("assistant", call("x"), call("y")),
      turn("user", result("x", [text("see"), picture]), result("y", [text("2")])),
    ],
  });
  t.same(body.messages.slice(1), [
    { role: "tool", tool_call_id: "x", content: "see\n[image 1 attached]" },
    { role: "tool", tool_call_id: "y", content: "2" },
    { role: "user", content: [{ type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } }] },
  ]);
  t.same(losses.changed, ["picture"]);
});

t.test("a failed result mentions an error", async (t) => {
  const content = (uses: string) =>
    messages(turn("assistant", call("x")), turn("user", result("x", [text(uses)], { isError: true })))[1]?.["content"];
  t.equal(content("Error: no such file"), "Error: no such file");
  t.equal(content("42"), '{"error":"42"}');
  const whole = (parts: Part[], more: object = {}) =>
    messages(turn("assistant", call("x")), turn("user", result("x", parts, { isError: true, ...more })))[1]?.[
      "content"
    ];
  t.equal(whole([text("42"), text("43")]), '{"error":"42\\n43"}');
  t.equal(whole([]), '{"error":"The tool failed."}');
  t.equal(whole([], { json: '{"code":7}' }), '{"error":"{\\"code\\":7}"}');
  t.equal(whole([text("42"), text("Access denied")]), "42\nAccess denied");
});

t.test("several texts of a result are one string, but for OpenAI: other servers refuse or ignore a list", async (t) => {
  const turns = [turn("assistant", call("x")), turn("user", result("x", [text("a"), text("b")]))];
  t.equal(messages(...turns)[1]?.["content"], "a\nb");
  t.match(messagesTo(OPENAI, ...turns)[1]?.["content"], [{ text: "a" }, { text: "b" }]);
});

t.test("a result that is an object is sent as its text", async (t) => {
  t.equal(
    messages(turn("assistant", call("x")), turn("user", result("x", [], { json: '{"a":1.0}' })))[1]?.["content"],
    '{"a":1.0}',
  );
});

t.test("ids and names are made to fit, the same on the call and its result", async (t) => {
  const id = `functions.Bash:0${"x".repeat(100)}`;
  const names = new ToolNames();
  const { body } = write(
    {
      turns: [turn("assistant", call(id, { name: "a.b" })), turn("user", result(id, [text("1")]))],
      tools: [{ kind: "function", name: "a.b", at: "tools.0" }],
      toolChoice: { mode: "named", name: "a.b" },
    },
    {},
    names,
  );
  const [made] = body.messages[0]?.["tool_calls"] as [{ id: string; function: { name: string } }];
  t.match(made.id, /^[a-zA-Z0-9_-]{1,64}$/);
  t.equal(made.id, body.messages[1]?.["tool_call_id"]);
  t.match(made.function.name, /^[a-zA-Z0-9_-]{1,64}$/);
  t.equal(names.original(made.function.name).name, "a.b");
  t.match(body, {
    tools: [{ function: { name: made.function.name } }],
    tool_choice: { type: "function", function: { name: made.function.name } },
  });
});

t.test("a tool in a namespace has it in its name, and is mapped back", async (t) => {
  const names = new ToolNames();
  const { body } = write({ tools: [{ kind: "function", name: "run", namespace: "shell", at: "tools.0" }] }, {}, names);
  t.match(body["tools"], [{ function: { name: "shell__run" } }]);
  t.same(names.original("shell__run"), { name: "run", namespace: "shell" });
});

t.test("arguments are written unchanged; missing ones are an empty object", async (t) => {
  const { body } = write({
    turns: [turn("assistant", call("x", { arguments: '{"a": 1.0}' }), call("y", { arguments: "" }))],
  });
  t.match(body.messages[0]?.["tool_calls"], [
    { function: { arguments: '{"a": 1.0}' } },
    { function: { arguments: "{}" } },
  ]);
});

const CUSTOM = {
  tools: [
    {
      kind: "custom",
      ...{ name: "exec", description: "d", at: "tools.0" },
      grammar: { syntax: "lark", definition: "start: /a/" },
    },
  ],
  turns: [turn("assistant", call("x", { name: "exec", custom: true, arguments: "ls" }))],
} satisfies Partial<Conversation>;

t.test("tools of free text are functions of one string for models that may know only functions", async (t) => {
  for (const model of ["deepseek-chat", "openai/gpt-5", "gpt-4o", "gpt-oss-120b"]) {
    const names = new ToolNames();
    const { body, losses } = write({ ...CUSTOM, toolChoice: { mode: "named", name: "exec" } }, {}, names, model);
    const input = { type: "string", description: "start: /a/" };
    const parameters = { type: "object", properties: { input }, required: ["input"], additionalProperties: false };
    t.same(body["tools"], [{ type: "function", function: { name: "exec", description: "d", parameters } }], model);
    t.same(body["tool_choice"], { type: "function", function: { name: "exec" } });
    t.match(body.messages[0]?.["tool_calls"], [
      { type: "function", function: { name: "exec", arguments: '{"input":"ls"}' } },
    ]);
    t.same(losses.changed, ["tools.0"], "the grammar");
    t.same(names.original("exec"), { name: "exec", custom: true });
  }
  const names = new ToolNames();
  const tools: Conversation["tools"] = [{ kind: "custom", name: "exec", namespace: "functions", at: "tools.0" }];
  t.same(write({ tools }, {}, names).losses.changed, []);
  t.same(names.original("functions__exec"), { name: "exec", namespace: "functions", custom: true });
});

t.test("custom tools are sent unchanged to models that take them", async (t) => {
  const { body } = write(CUSTOM, {}, undefined, "gpt-5.6");
  t.same(body["tools"], [
    {
      type: "custom",
      custom: {
        name: "exec",
        description: "d",
        format: { type: "grammar", grammar: { syntax: "lark", definition: "start: /a/" } },
      },
    },
  ]);
  t.match(body.messages[0]?.["tool_calls"], [{ type: "custom", custom: { name: "exec", input: "ls" } }]);
  for (const model of ["gpt-35-turbo", "gpt-41-mini", "gpt-4o"])
    t.match(write(CUSTOM, {}, undefined, model).body["tools"], [{ type: "function" }], model);
});

t.test("schemas are written unchanged", async (t) => {
  const schema = new RawJson('{"type":"object","properties":{"b":{"minimum":1.0},"a":{"oneOf":[]}}}');
  const { text } = write({
    tools: [{ kind: "function", name: "one", parameters: schema, at: "tools.0" }],
    format: { kind: "schema", schema, strict: true },
  });
  t.equal(text.split(schema.text).length, 3);
  t.match(text, '"json_schema":{"name":"answer"');
});

t.test("a schema that the client's vendor would have enforced is not enforced here, which is declared", async (t) => {
  const format = { kind: "schema" as const, schema: new RawJson('{"type":"object"}') };
  const uses: Conversation["uses"] = [{ feature: "json_schema", path: "output_config.format" }];
  t.same(write({ format: { ...format, alwaysStrict: true }, uses }).losses.changed, ["output_config.format"]);
  t.same(write({ format, uses }).losses.changed, []);
});

t.test("more tools than OpenAI's models take are refused", async (t) => {
  const tools = (count: number): Conversation["tools"] =>
    Array.from({ length: count }, (_, n) => ({ kind: "function", name: `f${n}`, at: `tools.${n}` }));
  const sent = (count: number, model: string, facts = {}) =>
    (write({ tools: tools(count) }, facts, undefined, model).body["tools"] as unknown[]).length;
  t.throws(() => sent(130, "gpt-5"), { message: /at most 128 tools, and there are 130/, param: "tools.128" });
  t.equal(sent(128, "gpt-5"), 128);
  t.equal(sent(130, "glm-5"), 130);
  t.equal(
    sent(130, "served-here", { sampling: false, cache_marks: true }),
    130,
    "facts alone do not make a model OpenAI's",
  );
});

t.test("every choice among tools is written", async (t) => {
  const tools: Conversation["tools"] = [
    { kind: "function", name: "one", at: "0" },
    { kind: "custom", name: "two", at: "1" },
  ];
  const choice = (toolChoice: Conversation["toolChoice"]) =>
    write({ tools, ...(toolChoice ? { toolChoice } : {}) }, {}, undefined, "gpt-5.6").body["tool_choice"];
  t.equal(choice({ mode: "required" }), "required");
  t.same(choice({ mode: "named", name: "two" }), { type: "custom", custom: { name: "two" } });
  t.same(choice({ mode: "allowed", required: true, names: ["one", "two"] }), {
    type: "allowed_tools",
    allowed_tools: {
      mode: "required",
      tools: [
        { type: "function", function: { name: "one" } },
        { type: "custom", custom: { name: "two" } },
      ],
    },
  });
  t.notOk("tool_choice" in write({ toolChoice: { mode: "auto" }, parallel: false }).body);
});

t.test("a vendor tool is never named as a function, and that is declared", async (t) => {
  const tools: Conversation["tools"] = [
    { kind: "function", name: "one", at: "tools.0" },
    { kind: "web_search", at: "tools.1" },
  ];
  const uses: Conversation["uses"] = [
    { feature: "tool_choice", path: "tool_choice" },
    { feature: "tool_choice_allowed", path: "tool_choice.tools" },
  ];
  const chosen = (toolChoice: NonNullable<Conversation["toolChoice"]>) => {
    const { body, losses } = write({ tools, toolChoice, uses: uses }, {}, undefined, "gpt-4o");
    return [body["tool_choice"], losses.changed];
  };
  const one = { type: "function", function: { name: "one" } };
  t.same(chosen({ mode: "allowed", required: true, names: ["one", "web_search"] }), [
    { type: "allowed_tools", allowed_tools: { mode: "required", tools: [one] } },
    ["tool_choice.tools"],
  ]);
  t.same(chosen({ mode: "allowed", required: false, names: ["web_search"] }), ["none", ["tool_choice.tools"]]);
  t.same(chosen({ mode: "named", name: "web_search", server: true }), ["auto", ["tool_choice"]]);
  t.same(chosen({ mode: "named", name: "one" }), [one, ["tools.1"]]);
});

/** A model that searches the web in Chat. */
const SEARCHING = "gpt-4o-search-preview";

t.test("web search is left out for models that are not known to take it here, which is declared", async (t) => {
  const tools: Conversation["tools"] = [
    { kind: "function", name: "one", at: "tools.0" },
    { kind: "web_search", at: "tools.1", size: "low" },
  ];
  const searches = (model: string) => {
    const { body, losses } = write({ tools }, {}, undefined, model);
    return ["web_search_options" in body, losses.dropped];
  };
  for (const model of ["deepseek-chat", "gpt-4o", "mistral-large-latest", "research-model"])
    t.same(searches(model), [false, ["tools.1"]], model);
  for (const model of [SEARCHING, "openai/gpt-5-search-api", "sonar-pro", "perplexity/sonar"])
    t.same(searches(model), [true, []], model);
});

t.test("a search that may not be used is left out, and what is lost with it is declared", async (t) => {
  const search = { kind: "web_search", at: "tools.1" } as const;
  const chosen = (
    toolChoice: NonNullable<Conversation["toolChoice"]>,
    tool: Conversation["tools"][number] = search,
  ) => {
    const tools = [{ kind: "function" as const, name: "one", at: "tools.0" }, tool];
    const { body, losses } = write({ tools, toolChoice }, {}, undefined, SEARCHING);
    return ["web_search_options" in body, losses.changed];
  };
  t.same(chosen({ mode: "none" }), [false, []]);
  t.same(chosen({ mode: "named", name: "one" }), [false, ["tools.1"]]);
  t.same(chosen({ mode: "allowed", required: false, names: ["one"] }), [false, ["tools.1"]]);
  t.same(chosen({ mode: "required" }), [true, []]);
  t.same(chosen({ mode: "auto" }), [true, []]);
  t.same(chosen({ mode: "none" }, { ...search, apart: true }), [true, []], "it does not depend on the client's choice");
});

t.test("that the search alone cannot be forced is declared", async (t) => {
  const search = { kind: "web_search", at: "tools.0" } as const;
  const chosen = (toolChoice: NonNullable<Conversation["toolChoice"]>) => {
    const { body, losses } = write({ tools: [search], toolChoice }, {}, undefined, SEARCHING);
    return ["web_search_options" in body, "tool_choice" in body, losses.changed];
  };
  t.same(chosen({ mode: "named", name: "web_search", server: true }), [true, false, ["tool_choice"]]);
  t.same(chosen({ mode: "required" }), [true, false, ["tool_choice"]]);
  const allowed = (required: boolean) => chosen({ mode: "allowed", required, names: ["web_search"] });
  t.same(allowed(true), [true, false, ["tool_choice_allowed"]]);
  t.same(allowed(false), [true, false, []]);
  t.same(chosen({ mode: "none" }), [false, false, []]);
});

t.test("an image's URL can be fetched, or contains the image", async (t) => {
  const image = (url: string): Part => ({ kind: "media", media: "image", source: { url }, at: "image" });
  for (const url of ["https://a.example/b", "http://a.example/b", "data:image/png;base64,AAAA"])
    t.match(messages(turn("user", image(url))), [{ content: [{ image_url: { url } }] }]);
  for (const url of ["gs://a/b", "file:///a", "ftp://a/b", "//a/b"])
    t.throws(() => messages(turn("user", image(url))), { code: "invalid_field", param: "image" });
});

t.test("a web search is requested by options; unsupported settings are dropped", async (t) => {
  const search = { kind: "web_search", at: "tools.0" } as const;
  const ask = (...tools: Conversation["tools"]) => write({ tools }, {}, undefined, SEARCHING);
  const { body, losses } = ask({ ...search, size: "low", location: { city: "Bern" }, maxUses: 3 });
  t.same(body["web_search_options"], {
    search_context_size: "low",
    user_location: { type: "approximate", approximate: { city: "Bern" } },
  });
  t.same(losses.dropped, ["tools.0"]);
  for (const domains of [{ allowed: ["a.com"] }, { blocked: ["b.com"] }])
    t.same(ask({ ...search, ...domains }).losses.dropped, ["tools.0"]);
  const paths = { allowed: "tools.0.a", blocked: "tools.0.b", maxUses: "tools.0.c" };
  const searching = ask({ ...search, allowed: ["a.com"], blocked: ["b.com"], maxUses: 3, paths });
  t.same(searching.losses.dropped, ["tools.0.a", "tools.0.b", "tools.0.c"]);
});

t.test("members are written under this protocol's names", async (t) => {
  const asked: Partial<Conversation> = {
    maxTokens: 5,
    stop: ["x"],
    choices: 2,
    temperature: 1.5,
    topP: 0.5,
    seed: 1,
    logprobs: 3,
    reasoning: { effort: "high" },
    format: { kind: "json" },
    verbosity: "low",
    cacheKey: "k",
    user: "u",
    tier: "standard_only",
  };
  t.match(write(asked, {}, undefined, "gpt-5.6").body, {
    max_completion_tokens: 5,
    stop: ["x"],
    n: 2,
    temperature: 1.5,
    top_p: 0.5,
    seed: 1,
    logprobs: true,
    top_logprobs: 3,
    reasoning_effort: "high",
    response_format: { type: "json_object" },
    verbosity: "low",
    prompt_cache_key: "k",
    user: "u",
    service_tier: "default",
  });
});

t.test("the standard tier is sent only to OpenAI, whose projects may have another default", async (t) => {
  const sent = (tier: string, model?: string) => write({ tier }, {}, undefined, model).body["service_tier"];
  t.same([sent("STANDARD", OPENAI), sent("default", OPENAI), sent("AUTO", OPENAI)], ["default", "default", undefined]);
  t.same([sent("standard_only"), sent("default"), sent("flex")], [undefined, undefined, "flex"]);
});

t.test("members that only some vendors take are left out for others, which is declared", async (t) => {
  const uses: Conversation["uses"] = [
    { feature: "verbosity", path: "text.verbosity" },
    { feature: "cache_key", path: "prompt_cache_key" },
    { feature: "cache_retention", path: "prompt_cache_retention" },
    { feature: "user", path: "metadata.user_id" },
  ];
  const sent = (model: string, facts: Facts = {}) => {
    const { body, losses } = write(
      { maxTokens: 5, verbosity: "low", cacheKey: "k", cacheRetention: "24h", user: "u", uses },
      facts,
      undefined,
      model,
    );
    const { messages: _, model: __, ...members } = body;
    return [Object.keys(members).sort(), losses.dropped];
  };
  const all = ["max_completion_tokens", "prompt_cache_key", "prompt_cache_retention", "user", "verbosity"];
  for (const model of ["gpt-5.6", "openai/gpt-4o", "my-gpt5", "o3", "o4-mini", "chatgpt-4o-latest"])
    t.same(sent(model), [all, []], model);
  t.same(sent("chat-of-ours", { sampling: false }), [all, []], "only OpenAI's models take no sampling settings");
  for (const model of ["deepseek-chat", "llama3.3", "openai/gpt-oss-120b", "moonshotai/kimi-k2", "unknown"])
    t.same(
      sent(model),
      [
        ["max_tokens", "user"],
        ["text.verbosity", "prompt_cache_key", "prompt_cache_retention"],
      ],
      model,
    );
  for (const family of [
    "mistral",
    "ministral",
    "open-mixtral",
    "codestral",
    "devstral",
    "magistral",
    "pixtral",
    "voxtral",
  ])
    t.same(
      sent(`${family}-latest`),
      [
        ["max_tokens", "prompt_cache_key"],
        ["text.verbosity", "prompt_cache_retention", "metadata.user_id"],
      ],
      family,
    );
  t.same(sent("kimi-k2.5")[0], ["max_tokens", "prompt_cache_key", "user"]);
  t.same(sent("served-here", { cache_marks: true }), [all, []], "as OpenAI takes cache marks");
});

t.test("an assistant's texts and refusals are one string for models that are not OpenAI's", async (t) => {
  const turns = [turn("assistant", text("one"), text("two"), { kind: "refusal", text: "No.", at: "r" })];
  t.same(write({ turns }).body.messages, [{ role: "assistant", content: "one\n\ntwo\n\nNo." }]);
  t.same(write({ turns }, {}, undefined, "gpt-5.6").body.messages, [
    {
      role: "assistant",
      content: [
        { type: "text", text: "one" },
        { type: "text", text: "two" },
      ],
      refusal: "No.",
    },
  ]);
});

t.test("pieces of a text that another vendor has divided by its citations are one text again", async (t) => {
  const cited = (words: string, more: object = {}) =>
    text(words, { citations: [{ url: "https://a.example", ...more }] });
  const content = (...parts: Part[]) => messages(turn("assistant", ...parts))[0]?.["content"];
  t.equal(content(text("It is "), cited("cold"), text(", and "), cited("dark"), text(".")), "It is cold, and dark.");
  t.equal(content(cited("One.", { start: 0, end: 4 }), text("Two.")), "One.\n\nTwo.", "texts with positions are whole");
  t.equal(content(text("One."), cited("Two."), { kind: "refusal", text: "No.", at: "r" }), "One.Two.\n\nNo.");
});

t.test("defaults are left out: not every server knows their members", async (t) => {
  const tools: Conversation["tools"] = [{ kind: "function", name: "one", strict: false, at: "tools.0" }];
  const { body } = write({ tools, parallel: true, tier: "auto" });
  t.same(body, { model: "vendor-model", messages: [], tools: [{ type: "function", function: { name: "one" } }] });
  t.equal(write({ tools, parallel: false }).body["parallel_tool_calls"], false);
});

t.test("only the allowed tools are sent to vendors without a choice among some, which is declared", async (t) => {
  const tools: Conversation["tools"] = ["one", "two", "three"].map((name) => ({ kind: "function", name, at: name }));
  const uses: Conversation["uses"] = [{ feature: "tool_choice_allowed", path: "tool_choice" }];
  const sent = (required: boolean, ...names: string[]) => {
    const { body, losses } = write({ tools, uses, toolChoice: { mode: "allowed", required, names } });
    const functions = body["tools"] as { function: { name: string } }[];
    return [functions.map((tool) => tool.function.name), body["tool_choice"], losses.changed];
  };
  t.same(sent(true, "one", "three"), [["one", "three"], "required", ["tool_choice", "two"]]);
  t.same(sent(false, "two"), [["two"], "auto", ["tool_choice", "one", "three"]]);
  t.same(sent(true), [["one", "two", "three"], "none", []], "none may be called");
});

t.test("a thinking budget becomes the nearest effort, and that is declared", async (t) => {
  const uses: Conversation["uses"] = [{ feature: "reasoning_budget", path: "thinking.budget_tokens" }];
  const effort = (budget: number) => write({ reasoning: { budget }, uses: uses });
  for (const [budget, word] of [
    [0, "none"],
    [1024, "low"],
    [4096, "low"],
    [12_000, "medium"],
    [24_000, "high"],
    [31_999, "high"],
  ] as const)
    t.equal(effort(budget).body["reasoning_effort"], word);
  t.same(effort(2000).losses.changed, ["thinking.budget_tokens"]);
  t.notOk("reasoning_effort" in effort(-1).body);
});

t.test("model-dependent settings follow the facts about the model", async (t) => {
  const uses: Conversation["uses"] = [
    { feature: "temperature", path: "temperature" },
    { feature: "prefill", path: "messages.1" },
    { feature: "reasoning_effort", path: "output_config.effort" },
  ];
  const { body, losses } = write(
    { temperature: 1, reasoning: { effort: "high" }, uses: uses },
    { sampling: false, thinking: "none" },
  );
  t.same(Object.keys(body), ["model", "messages"]);
  t.same(losses.dropped, ["temperature", "output_config.effort"]);
  t.same(losses.changed, ["messages.1"], "the effect of a turn at the end is unknown");
  t.same(write({ uses }, { prefill: true }).losses.changed, []);
  t.throws(() => write({ uses }, { prefill: false }), { code: "invalid_field", param: "messages.1" });
});

t.test("a model known not to reason is not asked not to, which is no loss", async (t) => {
  for (const facts of [{ reasons: false }, { thinking: "none" }] as const)
    for (const reasoning of [{ effort: "none" }, { budget: 0 }, { effort: "none", budget: 0 }] as const) {
      const { body, losses } = write({ reasoning }, facts);
      t.same(Object.keys(body), ["model", "messages"]);
      t.same([losses.dropped, losses.changed], [[], []]);
    }
  t.equal(write({ reasoning: { effort: "none" } }, {}).body["reasoning_effort"], "none");
  const asked = write({ protocol: "openai-responses", reasoning: { effort: "low" } }, { reasons: false });
  t.equal(asked.body["reasoning_effort"], "low", "the vendor decides on a request");
});

t.test(
  "a model without reasoning by the tables is not asked for it by other vendors' clients, which is declared",
  async (t) => {
    const uses: Conversation["uses"] = [{ feature: "reasoning_effort", path: "output_config.effort" }];
    for (const reasoning of [{ effort: "high" }, { budget: 8000 }] as const) {
      const { body, losses } = write({ reasoning, uses }, { reasons: false });
      t.notOk("reasoning_effort" in body);
      t.equal(losses.dropped.length, 1);
    }
    t.equal(write({ reasoning: { effort: "high" } }).body["reasoning_effort"], "high", "nothing is known");
  },
);

t.test(
  "thinking that the model may decide on is named by the client's own field, and lost only where none can be",
  async (t) => {
    const uses: Conversation["uses"] = [{ feature: "reasoning_effort", path: "thinking" }];
    const dropped = (facts: Facts, model?: string) =>
      write({ reasoning: { budget: -1 }, uses }, facts, undefined, model).losses.dropped;
    t.same(dropped({ reasons: false }), ["thinking"]);
    t.same(dropped({ thinking: "none" }), ["thinking"]);
    t.same(dropped({}, "grok-4-fast"), []);
  },
);

t.test(
  "an assistant's message without reasoning has something in its place for models that refuse it without",
  async (t) => {
    const opaque: Opaque = { protocol: "openai-chat", account: "them", kind: "reasoning_content", data: "So." };
    const turns = [
      turn("user", text("a")),
      turn("assistant", { kind: "reasoning", text: "So.", at: "r", opaque }, call("x")),
      turn("user", result("x", [text("1")])),
      turn("assistant", text("b"), call("y")),
      turn("user", result("y", [text("2")])),
    ];
    const reasoning = (model: string) =>
      messagesTo(model, ...turns).flatMap((sent) => (sent["role"] === "assistant" ? [sent["reasoning_content"]] : []));
    for (const model of [
      "deepseek-v4-pro",
      "deepseek-reasoner",
      "kimi-k2.5",
      "moonshotai/kimi-k2-thinking",
      "kimi-k3",
      "kimi-for-coding",
    ])
      t.same(reasoning(model), ["So.", "."], model);
    for (const model of ["deepseek-chat", "kimi-k2-0905-preview", "gpt-5.6", "qwen3"])
      t.same(reasoning(model), ["So.", undefined], model);
  },
);
t.test("xAI's models that take no effort are sent none, which is declared", async (t) => {
  const uses: Conversation["uses"] = [{ feature: "reasoning_effort", path: "effort" }];
  const asked = (model: string) => {
    const { body, losses } = write({ reasoning: { effort: "high" }, uses }, {}, undefined, model);
    return [body["reasoning_effort"], losses.dropped];
  };
  for (const model of ["grok-4-fast-reasoning", "grok-code-fast-1", "grok-4.20-0309-reasoning"])
    t.same(asked(model), [undefined, ["effort"]], model);
  for (const model of ["grok-4.3", "grok-3-mini", "x-ai/grok-4-fast"]) t.same(asked(model), ["high", []], model);
});

t.test("calls have ids that Mistral's models take, the same on a call and its result", async (t) => {
  const ids = (model: string, id: string) => {
    const sent = messagesTo(model, turn("assistant", call(id)), turn("user", result(id, [text("1")])));
    const [{ id: called }] = sent[0]?.["tool_calls"] as [{ id: string }];
    t.equal(sent[1]?.["tool_call_id"], called, model);
    return called;
  };
  t.equal(ids("mistral-large-latest", "D681PevKs"), "D681PevKs", "its own");
  for (const id of ["call_D681PevKs", "D681PevKs0"]) t.match(ids("mistral-large-latest", id), /^[a-z0-9]{9}$/, id);
  for (const model of ["mistral-large-latest", "mistralai/Devstral-Small-2507", "open-mixtral-8x22b", "Ministral-3B"]) {
    t.match(ids(model, "toolu_01A"), /^[a-z0-9]{9}$/, model);
    t.not(ids(model, "toolu_01A"), ids(model, "toolu_01B"));
  }
  t.equal(ids("deepseek-chat", "toolu_01A"), "toolu_01A");
});

t.test("a file's id is known in all protocols of the vendor that issued it", async (t) => {
  for (const protocol of ["openai-chat", "openai-responses"]) {
    const file: Part = { kind: "media", media: "file", source: { id: "file-1", protocol }, at: "file" };
    t.same(messages(turn("user", file))[0]?.["content"], [{ type: "file", file: { file_id: "file-1" } }], protocol);
  }
});

t.test("media of the system or the assistant are refused with the client's path", async (t) => {
  const image: Part = { kind: "media", media: "image", source: { url: "https://x/a.png" }, at: "image" };
  for (const model of ["gpt-5.6", "llama-4"])
    for (const role of ["system", "assistant"] as const) {
      const turns = [turn(role, text("Look"), image), turn("user", text("Hi"))];
      t.throws(() => write({ turns }, {}, undefined, model), { code: "invalid_field", param: "image" }, model + role);
    }
});

t.test("what cannot be written is refused with the client's path", async (t) => {
  const media = (more: object): Partial<Conversation> => ({
    turns: [turn("user", { kind: "media", at: "messages.0.content.0", ...more } as Part)],
  });
  const refused = [
    { media: "video", source: { url: "https://x/a.mp4" } },
    { media: "file", source: { url: "https://x/a.pdf" } },
    { media: "file", source: { id: "file_1", protocol: "anthropic-messages" } },
    { media: "audio", mime: "audio/flac", source: { base64: "A" } },
    { media: "image", source: { base64: "A" } },
  ];
  for (const each of refused)
    t.throws(() => write(media(each)), { code: "invalid_field", param: "messages.0.content.0" }, JSON.stringify(each));
  t.throws(() => write({ stop: ["a", "b", "c", "d", "e"], uses: [{ feature: "stop", path: "stop_sequences" }] }), {
    code: "invalid_field",
    param: "stop_sequences",
  });
});

t.test("a text file is sent as text, and a long user name as its hash", async (t) => {
  const { body } = write({
    turns: [turn("user", { kind: "media", media: "file", source: { text: "hi" }, filename: "a.txt", at: "at" })],
  });
  t.equal(body.messages[0]?.["content"], "a.txt\n\nhi");
  const uses: Conversation["uses"] = [{ feature: "cache_key", path: "prompt_cache_key" }];
  const key = write({ cacheKey: "k".repeat(65), uses }, {}, undefined, "gpt-4o");
  t.match(key.body["prompt_cache_key"], /^[0-9a-f]{64}$/);
  t.same(key.losses.changed, ["prompt_cache_key"]);
  const long = write({ user: "x".repeat(65), uses: [{ feature: "user", path: "metadata.user_id" }] });
  t.match(long.body["user"], /^[0-9a-f]{64}$/);
  t.same(long.losses.changed, ["metadata.user_id"]);
});

t.test("the detail of a file, which Chat has only for images, is declared", async (t) => {
  const file = (name: string, more: object): Part => ({
    kind: "media",
    media: "file",
    source: { base64: "aGk=" },
    at: name,
    detailAt: `${name}.detail`,
    ...more,
  });
  const txt = file("txt", { mime: "text/plain", detail: "high" });
  const pdf = file("pdf", { mime: "application/pdf", detail: "low" });
  const plain = file("plain", { mime: "text/plain", detail: "auto" });
  t.same(write({ turns: [turn("user", txt, pdf, plain)] }).losses.dropped, ["txt.detail", "pdf.detail"]);
  const turns = [turn("assistant", call("x")), turn("user", result("x", [txt]))];
  t.same(write({ turns }).losses.dropped, ["txt.detail"], "in a tool's result");
});

t.test("reasoning is returned unchanged, and only to a vendor of this protocol", async (t) => {
  const state = (kind: string, data = ""): Opaque => ({ protocol: "openai-chat", account: "acme", kind, data });
  const thought = (more: object): Part => ({ kind: "reasoning", at: "thought", ...more }) as Part;
  const message = (...parts: Part[]) => write({ turns: [turn("assistant", ...parts, text("a"))] });
  t.match(message(thought({ text: "so", opaque: state("reasoning_content") })).body.messages, [
    { reasoning_content: "so", content: "a" },
  ]);
  const [one, two] = ["one", "two"].map((text) => thought({ text, opaque: state("reasoning") }));
  t.match(message(one as Part, two as Part).body.messages, [{ reasoning: "one\n\ntwo" }], "two as paragraphs");
  const entry = { type: "reasoning.text", format: "anthropic-claude-v1", index: 0, signature: "sig" };
  t.same(
    message(thought({ text: "so", opaque: state("reasoning_details", JSON.stringify(entry)) })).body.messages[0]?.[
      "reasoning_details"
    ],
    [{ ...entry, text: "so" }],
  );
  const foreign = message(thought({ text: "so" }));
  t.same(foreign.body.messages, [{ role: "assistant", content: "a" }]);
  t.same(foreign.losses.dropped, ["thought"]);
  const extra = { google: { thought_signature: "sig" } };
  t.match(message(call("x", { opaque: state("extra_content", JSON.stringify(extra)) })).body.messages, [
    { tool_calls: [{ extra_content: extra }] },
  ]);
});

t.test("reasoning that the client was not shown is returned complete", async (t) => {
  const back = (kind: string, data: string) =>
    write({
      turns: [
        turn(
          "assistant",
          {
            kind: "reasoning",
            at: "thought",
            text: "",
            opaque: { protocol: "openai-chat", account: "acme", kind, data },
          },
          text("a"),
        ),
      ],
    }).body.messages;
  t.match(back("reasoning_content", "so"), [{ reasoning_content: "so", content: "a" }]);
  t.match(back("reasoning", "so"), [{ reasoning: "so", content: "a" }]);
  const entry = { type: "reasoning.text", text: "so", signature: "sig" };
  t.match(back("reasoning_details", JSON.stringify(entry)), [{ reasoning_details: [entry] }]);
  t.same(back("thinking", "so")[0]?.["content"], [
    { type: "thinking", thinking: [{ type: "text", text: "so" }] },
    { type: "text", text: "a" },
  ]);
});

t.test("text after a call is written before it, and that is declared", async (t) => {
  const { body, losses } = write({ turns: [turn("assistant", call("x"), text("late"))] });
  t.match(body.messages, [{ content: "late", tool_calls: [{ id: "x" }] }]);
  t.same(losses.changed, ["text"]);
});

t.test("an answer of no tokens is refused", async (t) => {
  t.throws(() => write({ maxTokens: 0 }), { code: "invalid_field", param: "max_tokens" });
});

t.test("a mark for the whole prompt sets only its duration", async (t) => {
  const takes = { cache_marks: true };
  t.same(write({ cache: { ttl: "1h" } }, takes).body["prompt_cache_options"], { mode: "implicit", ttl: "12h" });
  t.same(write({ cache: { ttl: "30m" } }, takes).body["prompt_cache_options"], { mode: "implicit", ttl: "30m" });
  t.same(
    [{}, { ttl: "5m" } as const].map((cache) => write({ cache }).body["prompt_cache_options"]),
    [undefined, undefined],
  );
});

t.test("very many thoughts are joined in linear time", async (t) => {
  const opaque: Opaque = { protocol: "openai-chat", account: "one", kind: "reasoning_content", data: "t".repeat(1000) };
  const thoughts = Array.from({ length: 60_000 }, (): Part => ({ kind: "reasoning", at: "thought", opaque }));
  const { encode } = request;
  const conversation: Conversation = {
    ...{ protocol: "another", task: "generate", stream: false, tools: [], uses: [] },
    turns: [turn("assistant", ...thoughts, text("Hi"))],
  };
  runLinear(() => t.ok(runAtOnce(encode(conversation, terms())).body.length > 60_000_000));
});
