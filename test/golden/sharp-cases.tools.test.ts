/** Sharp cases of tools: calls, results, names and choices, on their way to the vendor. */

import t from "tap";
import { type JsonObject } from "../../src/wire/values.ts";
import { faultsOf } from "../support/vendor-rules.ts";
import { PROTOCOLS, type ProtocolName } from "../support/vendor-sdks.ts";
import {
  at,
  chatStream,
  chunk,
  listAt,
  PLAIN,
  plainly,
  refusalOf,
  type Sent,
  send,
  understood,
} from "./sharp-cases.ts";

const SCHEMA = { type: "object", properties: { city: { type: "string" } } };
const functionTool = (name: string) => ({ type: "function", function: { name, parameters: SCHEMA } });
const call = (id: string, name: string, args: string) => ({
  id,
  type: "function",
  function: { name, arguments: args },
});
const asks = { role: "user", content: "Weather?" };
const IMAGE = "iVBORw0KGgo=";

/** A Chat history with one call and its result. */
const called = (id: string, args: string, ...more: JsonObject[]): JsonObject => ({
  messages: [
    asks,
    { role: "assistant", content: null, tool_calls: [call(id, "get_weather", args)] },
    { role: "tool", tool_call_id: id, content: "snow" },
    ...more,
  ],
  tools: [functionTool("get_weather")],
});

t.test("1: a Chat assistant message with content null and a call becomes a tool_use alone", async (t) => {
  const { body } = send("openai-chat", called("call_1", '{"city":"Oslo"}'), "anthropic-messages");
  t.same(at(body, "messages.1"), {
    role: "assistant",
    content: [{ type: "tool_use", id: "call_1", name: "get_weather", input: { city: "Oslo" } }],
  });
  for (const content of ["", "  \n", []]) {
    const history = called("call_1", "{}");
    Object.assign(listAt(history, "messages")[1] as JsonObject, { content });
    const blocks = listAt(send("openai-chat", history, "anthropic-messages").body, "messages.1.content");
    t.same(
      blocks.map(({ type }) => type),
      ["tool_use"],
      `content ${JSON.stringify(content)}`,
    );
  }
});

t.test("3: arguments in a history keep every digit, space and order of keys", async (t) => {
  const args = '{"b": 1.0, "a": 12345678901234567890}';
  const history = called("call_1", args);
  t.equal(at(send("openai-chat", history, "openai-responses").body, "input.1.arguments"), args);
  t.ok(
    send("openai-chat", history, "anthropic-messages").text.includes(`"input":${args}`),
    "as raw text in Anthropic's",
  );
  t.ok(send("openai-chat", history, "gemini").text.includes(`"args":${args}`), "as raw text in Gemini's");
});

t.test("22: Gemini results without ids are matched by name and order, and a 400 where there is no call", async (t) => {
  const history = (results: readonly JsonObject[]): JsonObject => ({
    contents: [
      { role: "user", parts: [{ text: "Weather?" }] },
      {
        role: "model",
        parts: ["Oslo", "Rome"]
          .map((city): JsonObject => ({ functionCall: { name: "get_weather", args: { city } } }))
          .concat({ functionCall: { name: "now", args: {} } }),
      },
      { role: "user", parts: results.map((functionResponse) => ({ functionResponse })) },
    ],
  });
  const uses = (name: string, output: string) => ({ name, response: { output } });
  const { body } = send(
    "gemini",
    history([uses("now", "noon"), uses("get_weather", "snow"), uses("get_weather", "sun")]),
    "anthropic-messages",
  );
  const calls = listAt(body, "messages.1.content");
  t.same(
    calls.map(({ input }) => input),
    [{ city: "Oslo" }, { city: "Rome" }, {}],
  );
  const results = new Map(listAt(body, "messages.2.content").map((each) => [each["tool_use_id"], each["content"]]));
  t.same(
    calls.map(({ id }) => results.get(id)),
    ["snow", "sun", "noon"],
  );
  t.same(faultsOf("anthropic-messages", JSON.stringify(body)), []);
  t.match(refusalOf("gemini", history([uses("unknown", "?")]), "anthropic-messages"), {
    status: 400,
    param: "contents.2.parts.0.functionResponse",
  });
  const [first, ...rest] = listAt(history([]), "contents");
  const early = { contents: [first, { role: "user", parts: [{ functionResponse: uses("now", "noon") }] }, ...rest] };
  t.equal(refusalOf("gemini", early, "anthropic-messages").status, 400, "a result before its call");
});

t.test(
  "35: a forced call is sent without a thinking budget, and that is declared; adaptive thinking allows it",
  async (t) => {
    const ask = {
      messages: [asks],
      tools: [functionTool("get_weather")],
      tool_choice: "required",
      reasoning_effort: "high",
      temperature: 0.5,
      max_completion_tokens: 32_000,
    };
    const budget = { facts: { thinking: "budget" } } as const;
    const told = [/^reasoning_effort: no thinking: this model cannot be made to call a tool while it thinks$/];
    for (const choice of ["required", { type: "function", function: { name: "get_weather" } }]) {
      const forced = { ...ask, tool_choice: choice };
      const { body, notices, dropped, text } = send("openai-chat", forced, "anthropic-messages", budget);
      t.match(body["tool_choice"], { type: choice === "required" ? "any" : "tool" });
      t.notOk("thinking" in body);
      t.equal(body["temperature"], 0.5, "settings that are only refused beside thinking");
      t.match(notices, told);
      t.same(dropped, []);
      t.same(faultsOf("anthropic-messages", text), []);
      t.match(refusalOf("openai-chat", forced, "anthropic-messages", { ...budget, strict: true }), {
        status: 400,
        param: "reasoning_effort",
      });
    }
    const free = send("openai-chat", { ...ask, tool_choice: "auto" }, "anthropic-messages", budget);
    t.match(free.body["thinking"], { type: "enabled" });
    const adaptive = send("openai-chat", { ...ask, temperature: undefined }, "anthropic-messages", {
      facts: { thinking: "adaptive" },
    });
    t.match(adaptive.body, {
      tool_choice: { type: "any" },
      thinking: { type: "adaptive" },
      output_config: { effort: "high" },
    });
    t.same([adaptive.notices, adaptive.dropped], [[], []]);
  },
);

t.test("36: parallel_tool_calls false without a tool_choice creates one for Claude", async (t) => {
  const ask = { messages: [asks], tools: [functionTool("get_weather")], parallel_tool_calls: false };
  t.same(send("openai-chat", ask, "anthropic-messages").body["tool_choice"], {
    type: "auto",
    disable_parallel_tool_use: true,
  });
  t.same(send("openai-chat", { ...ask, tool_choice: "required" }, "anthropic-messages").body["tool_choice"], {
    type: "any",
    disable_parallel_tool_use: true,
  });
});

t.test("37: allowed_tools required is Gemini's ANY with allowedFunctionNames", async (t) => {
  const ask = (mode: string) => ({
    messages: [asks],
    tools: ["a", "b", "c"].map(functionTool),
    tool_choice: {
      type: "allowed_tools",
      allowed_tools: { mode, tools: ["a", "c"].map((name) => ({ type: "function", function: { name } })) },
    },
  });
  t.same(send("openai-chat", ask("required"), "gemini").body["toolConfig"], {
    functionCallingConfig: { mode: "ANY", allowedFunctionNames: ["a", "c"] },
  });
  const { body, notices } = send("openai-chat", ask("required"), "anthropic-messages");
  t.same(
    listAt(body, "tools").map(({ name }) => name),
    ["a", "c"],
    "Claude gets these tools only",
  );
  t.same(body["tool_choice"], { type: "any" });
  t.match(notices.join(), /tools\.1: not among the allowed tools/);
});

t.test(
  "40: consecutive user turns and results split over two turns are one turn for Claude, results first",
  async (t) => {
    const messages = [
      asks,
      { role: "user", content: "Now?" },
      {
        role: "assistant",
        content: null,
        tool_calls: [call("a", "get_weather", "{}"), call("b", "get_weather", "{}")],
      },
      { role: "tool", tool_call_id: "a", content: "snow" },
      { role: "user", content: "And?" },
      { role: "tool", tool_call_id: "b", content: "sun" },
    ];
    const { body } = send("openai-chat", { messages, tools: [functionTool("get_weather")] }, "anthropic-messages");
    t.same(at(body, "messages.0"), {
      role: "user",
      content: [
        { type: "text", text: "Weather?" },
        { type: "text", text: "Now?" },
      ],
    });
    t.same(at(body, "messages.2"), {
      role: "user",
      content: [
        { type: "tool_result", tool_use_id: "a", content: "snow" },
        { type: "tool_result", tool_use_id: "b", content: "sun" },
        { type: "text", text: "And?" },
      ],
    });
    t.same(faultsOf("anthropic-messages", JSON.stringify(body)), []);
  },
);

t.test("41: a Chat result and then a user's text are one turn of Claude's: the result, then the text", async (t) => {
  const { body } = send(
    "openai-chat",
    called("call_1", "{}", { role: "user", content: "Thanks. And Rome?" }),
    "anthropic-messages",
  );
  t.equal(listAt(body, "messages").length, 3);
  t.same(at(body, "messages.2.content"), [
    { type: "tool_result", tool_use_id: "call_1", content: "snow" },
    { type: "text", text: "Thanks. And Rome?" },
  ]);
});

t.test("42: an image in a result is a part of it, and for Chat a user message that says so", async (t) => {
  const ask: JsonObject = {
    max_tokens: 100,
    messages: [
      asks,
      { role: "assistant", content: [{ type: "tool_use", id: "t1", name: "shoot", input: {} }] },
      {
        role: "user",
        content: [
          {
            type: "tool_result",
            tool_use_id: "t1",
            content: [
              { type: "text", text: "Here." },
              { type: "image", source: { type: "base64", media_type: "image/png", data: IMAGE } },
            ],
          },
        ],
      },
    ],
    tools: [{ name: "shoot", input_schema: SCHEMA }],
  };
  const to = (vendor: ProtocolName): Sent => send("anthropic-messages", ask, vendor);
  const url = `data:image/png;base64,${IMAGE}`;
  t.match(at(to("openai-responses").body, "input.2.output"), [
    { type: "input_text", text: "Here." },
    { type: "input_image", image_url: url },
  ]);
  t.match(at(to("gemini").body, "contents.2.parts.0.functionResponse"), {
    name: "shoot",
    response: { output: "Here." },
    parts: [{ inlineData: { mimeType: "image/png", data: IMAGE } }],
  });
  const chat = to("openai-chat");
  t.match(listAt(chat.body, "messages").slice(2), [
    { role: "tool", tool_call_id: "t1", content: "Here.\n[image 1 attached]" },
    { role: "user", content: [{ type: "image_url", image_url: { url } }] },
  ]);
  t.match(chat.notices, [/^messages\.2\.content\.0\.content\.1: A tool's result is only text/]);
  for (const vendor of ["openai-chat", "openai-responses", "gemini"] as const)
    t.same(faultsOf(vendor, to(vendor).text), []);
});

t.test("43: is_error is Gemini's error key, and is is_error again when translated back", async (t) => {
  const history = (is_error: boolean): JsonObject => ({
    max_tokens: 100,
    messages: [
      asks,
      { role: "assistant", content: [{ type: "tool_use", id: "t1", name: "get_weather", input: {} }] },
      { role: "user", content: [{ type: "tool_result", tool_use_id: "t1", content: "no such city", is_error }] },
    ],
    tools: [{ name: "get_weather", input_schema: SCHEMA }],
  });
  const { body } = send("anthropic-messages", history(true), "gemini");
  t.same(at(body, "contents.2.parts.0.functionResponse.response"), { error: "no such city" });
  const back = send("gemini", body, "anthropic-messages");
  t.match(at(back.body, "messages.2.content.0"), { content: "no such city", is_error: true });
  const fine = send("anthropic-messages", history(false), "gemini").body;
  t.same(at(fine, "contents.2.parts.0.functionResponse.response"), { output: "no such city" });
  t.notOk("is_error" in (at(send("gemini", fine, "anthropic-messages").body, "messages.2.content.0") as JsonObject));
});

t.test(
  "44: unusual call ids are replaced by ones that every vendor accepts, the same on call and result",
  async (t) => {
    const ids = {
      "openai-chat": (body: JsonObject) => [
        at(body, "messages.1.tool_calls.0.id"),
        at(body, "messages.2.tool_call_id"),
      ],
      "openai-responses": (body: JsonObject) => [at(body, "input.1.call_id"), at(body, "input.2.call_id")],
      "anthropic-messages": (body: JsonObject) => [
        at(body, "messages.1.content.0.id"),
        at(body, "messages.2.content.0.tool_use_id"),
      ],
      gemini: (body: JsonObject) => [
        at(body, "contents.1.parts.0.functionCall.id"),
        at(body, "contents.2.parts.0.functionResponse.id"),
      ],
    };
    for (const id of ["functions.Bash:0", "x".repeat(300), "call_é"])
      for (const vendor of PROTOCOLS.filter((name) => name !== "openai-chat")) {
        const sent = send("openai-chat", called(id, "{}"), vendor);
        const [ofCall, ofResult] = ids[vendor](sent.body);
        t.equal(ofCall, ofResult, `one id for ${vendor}`);
        t.match(ofCall, /^[a-zA-Z0-9_-]{1,64}$/);
        t.same(faultsOf(vendor, sent.text), []);
        t.equal(ids[vendor](send("openai-chat", called(id, "{}"), vendor).body)[0], ofCall, "the same each time");
      }
    const packed = `call_7__thought__${"CiQB0e2Kb1".repeat(30)}`;
    const { body } = send("openai-chat", called(packed, "{}"), "gemini");
    t.match(at(body, "contents.1.parts.0"), {
      functionCall: { id: "call_7" },
      thoughtSignature: "CiQB0e2Kb1".repeat(30),
    });
    t.equal(at(body, "contents.2.parts.0.functionResponse.id"), "call_7");
    t.equal(at(send("openai-chat", called(packed, "{}"), "openai-responses").body, "input.1.call_id"), "call_7");
  },
);

t.test("44: the client of a Chat upstream gets the vendor's ids", async (t) => {
  const stream = chatStream([
    chunk({ role: "assistant", tool_calls: [{ index: 0, ...call("functions.Bash:0", "get_weather", "{}") }] }),
    chunk({}, "tool_calls"),
  ]);
  const ask = { input: "Hi", store: false, tools: [{ type: "function", name: "get_weather", parameters: SCHEMA }] };
  const { values } = send("openai-responses", ask, "openai-chat").streamed(stream);
  t.equal(at(values.at(-1), "response.output.0.call_id"), "functions.Bash:0");
  const messages = send(
    "anthropic-messages",
    { max_tokens: 9, messages: [asks], tools: [{ name: "get_weather", input_schema: SCHEMA }] },
    "openai-chat",
  ).streamed(stream);
  t.match(at(messages.values[1], "content_block.id"), /^[a-zA-Z0-9_-]+$/, "Anthropic's clients check ids");
});

t.test("44: a Chat upstream gets its own ids back from every client, and other vendors accepted ones", async (t) => {
  const id = "functions.get_weather:0";
  const answer = chatStream([
    chunk({ role: "assistant", tool_calls: [{ index: 0, ...call(id, "get_weather", "{}") }] }),
    chunk({}, "tool_calls"),
  ]);
  const histories = {
    "openai-responses": (id: unknown) => ({
      input: [
        asks,
        { type: "function_call", call_id: id, name: "get_weather", arguments: "{}" },
        { type: "function_call_output", call_id: id, output: "sun" },
      ],
      store: false,
    }),
    "anthropic-messages": (id: unknown) => ({
      max_tokens: 9,
      messages: [
        asks,
        { role: "assistant", content: [{ type: "tool_use", id, name: "get_weather", input: {} }] },
        { role: "user", content: [{ type: "tool_result", tool_use_id: id, content: "sun" }] },
      ],
    }),
    gemini: (id: unknown) => ({
      contents: [
        { role: "user", parts: [{ text: "Hi" }] },
        { role: "model", parts: [{ functionCall: { id, name: "get_weather", args: {} } }] },
        { role: "user", parts: [{ functionResponse: { id, name: "get_weather", response: { output: "sun" } } }] },
      ],
    }),
  };
  for (const client of ["openai-responses", "anthropic-messages", "gemini"] as const) {
    const told = (await understood(client, plainly(client, "openai-chat").streamed(answer))).calls[0]?.id;
    const back = send(client, histories[client](told), "openai-chat").body;
    t.equal(at(back, "messages.1.tool_calls.0.id"), id, client);
    t.equal(at(back, "messages.2.tool_call_id"), id, client);
    for (const vendor of PROTOCOLS.filter((name) => name !== "openai-chat" && name !== client))
      t.same(faultsOf(vendor, send(client, histories[client](told), vendor).text), [], `${client} to ${vendor}`);
  }
});

t.test("44: ids that a vendor uses again are unique for the client, and for Claude", async (t) => {
  const pair = (id: string) => [
    { role: "assistant", content: null, tool_calls: [call(id, "get_weather", "{}")] },
    { role: "tool", tool_call_id: id, content: "snow" },
  ];
  const asked = { messages: [asks, ...pair("call_0"), ...pair("call_0")], tools: [functionTool("get_weather")] };
  const { body, text } = send("openai-chat", asked, "anthropic-messages");
  t.same(faultsOf("anthropic-messages", text), []);
  t.match(at(body, "messages.3.content.0"), { type: "tool_use", id: "call_0_1" });
  t.match(at(body, "messages.4.content.0"), { tool_use_id: "call_0_1" });
  const answer = chatStream([
    chunk({ role: "assistant", tool_calls: [{ index: 0, ...call("call_0", "get_weather", "{}") }] }),
    chunk({}, "tool_calls"),
  ]);
  const history = {
    max_tokens: 9,
    messages: [
      asks,
      { role: "assistant", content: [{ type: "tool_use", id: "call_0", name: "get_weather", input: {} }] },
      { role: "user", content: [{ type: "tool_result", tool_use_id: "call_0", content: "snow" }] },
    ],
  };
  const told = send("anthropic-messages", history, "openai-chat").streamed(answer);
  t.equal(at(told.values[1], "content_block.id"), "call_0_1");
  const tool_calls = ["A", "B"].map((city) => call("call_0", "get_weather", JSON.stringify({ city })));
  const whole = { choices: [{ index: 0, message: { role: "assistant", tool_calls }, finish_reason: "tool_calls" }] };
  t.match(
    send("anthropic-messages", history, "openai-chat", { stream: false }).whole(whole)["content"],
    [
      { id: "call_0_1", input: { city: "A" } },
      { id: "call_0_2", input: { city: "B" } },
    ],
    "calls of one answer with one id are several",
  );
});

t.test("45: names with dots or of 80 characters are shortened for OpenAI and mapped back in the answer", async (t) => {
  const long = `mcp__${"server".repeat(10)}__search_all_things`;
  const names = ["fs.read_file", long];
  const ask = {
    contents: [{ role: "user", parts: [{ text: "Hi" }] }],
    tools: [{ functionDeclarations: names.map((name) => ({ name, parametersJsonSchema: SCHEMA })) }],
  };
  for (const vendor of ["openai-chat", "openai-responses"] as const) {
    const sent = send("gemini", ask, vendor);
    const fitted = listAt(sent.body, "tools").map((tool) => at(tool, "function.name") ?? tool["name"]);
    for (const name of fitted) t.match(name, /^[a-zA-Z0-9_-]{1,64}$/);
    t.equal(new Set(fitted).size, 2);
    if (vendor !== "openai-chat") continue;
    const stream = chatStream([
      chunk({
        role: "assistant",
        tool_calls: fitted.map((name, index) => ({ index, ...call(`c${index}`, String(name), "{}") })),
      }),
      chunk({}, "tool_calls"),
    ]);
    const told = sent.streamed(stream).values.flatMap((value) => listAt(value, "candidates.0.content.parts"));
    t.same(
      told.map((part) => at(part, "functionCall.name")),
      names,
    );
  }
  const claude = { max_tokens: 9, messages: [asks], tools: [{ name: long, input_schema: SCHEMA }] };
  const sent = send("anthropic-messages", claude, "openai-chat");
  const name = String(at(sent.body, "tools.0.function.name"));
  const whole = sent.whole({
    id: "1",
    model: "m",
    choices: [
      { index: 0, finish_reason: "tool_calls", message: { role: "assistant", tool_calls: [call("c", name, "{}")] } },
    ],
  });
  t.equal(at(whole, "content.0.name"), long);
});

const SERVER_TOOLS: Readonly<
  Partial<Record<ProtocolName, { own: unknown; theirs: unknown[]; used: JsonObject; where: string }>>
> = {
  "openai-responses": {
    own: { type: "function", name: "f", parameters: SCHEMA },
    theirs: [
      { type: "image_generation" },
      { type: "code_interpreter", container: { type: "auto" } },
      { type: "mcp", server_label: "m", server_url: "https://m.test" },
    ],
    used: { input: [{ type: "image_generation_call", id: "ig_1", status: "completed", result: "QQ==" }, asks] },
    where: "input.0",
  },
  "anthropic-messages": {
    own: { name: "f", input_schema: SCHEMA },
    theirs: [
      { type: "bash_20250124", name: "bash" },
      { type: "code_execution_20250825", name: "code_execution" },
    ],
    used: {
      messages: [
        asks,
        { role: "assistant", content: [{ type: "tool_use", id: "toolu_1", name: "bash", input: { command: "ls" } }] },
        { role: "user", content: [{ type: "tool_result", tool_use_id: "toolu_1", content: "x" }] },
      ],
    },
    where: "messages.1.content.0",
  },
  gemini: {
    own: { functionDeclarations: [{ name: "f" }] },
    theirs: [{ codeExecution: {} }, { url_context: {} }],
    used: {
      contents: [
        { role: "user", parts: [{ text: "Run it" }] },
        { role: "model", parts: [{ executableCode: { language: "PYTHON", code: "1" } }, { text: "1" }] },
        { role: "user", parts: [{ text: "And?" }] },
      ],
    },
    where: "contents.1.parts.0",
  },
};

for (const [client, { own, theirs, used, where }] of Object.entries(SERVER_TOOLS))
  t.test(`tools run by the vendor of ${client} are dropped where they are offered, refused where required`, (t) => {
    const from = client as ProtocolName;
    for (const to of PROTOCOLS.filter((name) => name !== client)) {
      const offered = send(from, { ...PLAIN[from], tools: [own, ...theirs] }, to);
      t.equal(offered.dropped.filter((path) => path.startsWith("tools")).length, theirs.length, to);
      t.same(faultsOf(to, offered.text), [], to);
      const only = send(from, { ...PLAIN[from], tools: theirs }, to);
      t.notOk(only.body["tools"] ?? only.body["tool_choice"] ?? only.body["toolConfig"], to);
      t.match(refusalOf(from, { ...PLAIN[from], ...used, tools: [own, ...theirs] }, to), { param: where, status: 400 });
      t.ok(
        send(from, { ...PLAIN[from], ...used, tools: [own] }, to),
        "a tool that is no longer offered was used before",
      );
      t.match(refusalOf(from, { ...PLAIN[from], tools: [own, ...theirs] }, to, { strict: true }), { status: 400 });
    }
    t.end();
  });

t.test("a forced vendor tool is a 400 at the choice", async (t) => {
  const runs = { type: "code_interpreter", container: { type: "auto" } };
  for (const tool_choice of [{ type: "code_interpreter" }, "required"]) {
    const asked = { ...PLAIN["openai-responses"], tools: [runs], tool_choice };
    t.match(refusalOf("openai-responses", asked, "gemini"), { param: "tool_choice", message: /^tool_choice: / });
  }
  const bash = { type: "bash_20250124", name: "bash" };
  const named = { ...PLAIN["anthropic-messages"], tools: [bash], tool_choice: { type: "tool", name: "bash" } };
  t.match(refusalOf("anthropic-messages", named, "openai-chat"), { param: "tool_choice" });
});

t.test("a strict tool of a Claude client is strict for OpenAI if it can be, and else an ordinary one", async (t) => {
  const input = (required: string[]) => ({
    type: "object",
    properties: { city: { type: "string" }, unit: { type: "string" } },
    required,
    additionalProperties: false,
  });
  const tool = (name: string, required: string[]) => ({ name, strict: true, input_schema: input(required) });
  const asked = { ...PLAIN["anthropic-messages"], tools: [tool("all", ["city", "unit"]), tool("some", ["city"])] };
  for (const to of ["openai-chat", "openai-responses"] as const) {
    const { body, notices } = send("anthropic-messages", asked, to);
    const tools = listAt(body, "tools").map((sent) => (sent["function"] ?? sent) as JsonObject);
    t.same(
      tools.map(({ name, strict }) => [name, strict ?? false]),
      [
        ["all", true],
        ["some", false],
      ],
      to,
    );
    t.match(notices, [/^tools\.1: /], to);
    t.match(refusalOf("anthropic-messages", asked, to, { strict: true }), { param: "tools.1" }, to);
  }
});

t.test("tools that would have one name with their namespace have two, and each call is its own tool's", async (t) => {
  const tool = (name: string) => ({ type: "function", name, parameters: SCHEMA });
  const namespace = (name: string, ...tools: JsonObject[]) => ({ type: "namespace", name, description: "d", tools });
  const request: JsonObject = {
    input: [
      { role: "user", content: "Weather?" },
      { type: "function_call", call_id: "c1", name: "c", namespace: "a__b", arguments: "{}" },
      { type: "function_call_output", call_id: "c1", output: "snow" },
    ],
    tools: [namespace("a", tool("b__c")), namespace("a__b", tool("c")), namespace("x", tool("y")), tool("x__y")],
  };
  for (const protocol of PROTOCOLS.filter((each) => each !== "openai-responses")) {
    const { text } = send("openai-responses", request, protocol);
    const [, called = ""] = /"name": ?"(a__b__c[^"]*)","(?:args|arguments|input)"/.exec(text) ?? [];
    t.match(called, /^a__b__c_[0-9a-f]{8}$/, protocol);
    for (const name of ["a__b__c", called, "x__y"])
      t.equal(
        text.split(`"name":"${name}","parameters`).length + text.split(`"name":"${name}","input_schema`).length,
        3,
      );
  }
});
