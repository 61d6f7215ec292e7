/** Sharp cases of what a request asks for besides its tools: turns, settings, schemas. */

import t from "tap";
import { type JsonObject } from "../../src/wire/values.ts";
import { faultsOf } from "../support/vendor-rules.ts";
import { PROTOCOLS } from "../support/vendor-sdks.ts";
import { at, listAt, PLAIN, refusalOf, send } from "./sharp-cases.ts";

const asks = { role: "user", content: "Hi" };
const gemini = (generationConfig: JsonObject, more: JsonObject = {}): JsonObject => ({
  contents: [{ role: "user", parts: [{ text: "Hi" }] }],
  generationConfig,
  ...more,
});

t.test("an image that the model generated stays in the conversation, in every protocol", async (t) => {
  const url = "data:image/png;base64,iVBO";
  const chat = { role: "assistant", content: "A cat:", images: [{ type: "image_url", image_url: { url } }] };
  const histories: Partial<Record<(typeof PROTOCOLS)[number], JsonObject>> = {
    "openai-chat": { messages: [asks, chat, { role: "user", content: "Bluer" }] },
    "openai-responses": {
      input: [
        asks,
        { role: "assistant", content: "A cat:" },
        { type: "image_generation_call", id: "ig_1", status: "completed", result: "iVBO", revised_prompt: null },
        { role: "user", content: "Bluer" },
      ],
    },
    gemini: {
      contents: [
        { role: "user", parts: [{ text: "Hi" }] },
        { role: "model", parts: [{ text: "A cat:" }, { inlineData: { mimeType: "image/png", data: "iVBO" } }] },
        { role: "user", parts: [{ text: "Bluer" }] },
      ],
    },
  };
  const WORD = "[image made by the assistant]";
  for (const [client, body] of Object.entries(histories))
    for (const vendor of PROTOCOLS.filter((name) => name !== client)) {
      const sent = send(client as (typeof PROTOCOLS)[number], body, vendor);
      t.same(sent.dropped, [], `${client} to ${vendor}`);
      t.equal(sent.notices.length, 1, `${client} to ${vendor}`);
      t.same(faultsOf(vendor, sent.text), [], `${client} to ${vendor}`);
      const next = {
        "openai-chat": () => at(sent.body, "messages.2.content"),
        "openai-responses": () => at(sent.body, "input.2.content"),
        "anthropic-messages": () => at(sent.body, "messages.2.content"),
        gemini: () => at(sent.body, "contents.1.parts"),
      }[vendor]();
      t.match(
        next,
        {
          "openai-chat": [{ text: WORD }, { image_url: { url } }, { text: "Bluer" }],
          "openai-responses": [{ text: WORD }, { type: "input_image", image_url: url }, { text: "Bluer" }],
          "anthropic-messages": [{ text: WORD }, { type: "image", source: { data: "iVBO" } }, { text: "Bluer" }],
          gemini: [{ text: "A cat:" }, { inlineData: { data: "iVBO" }, thoughtSignature: /^skip_/ }],
        }[vendor],
        `${client} to ${vendor}`,
      );
      t.match(refusalOf(client as (typeof PROTOCOLS)[number], body, vendor, { strict: true }), { status: 400 });
    }
  const budget = send("openai-chat", histories["openai-chat"] as JsonObject, "gemini", {
    facts: { thinking: "budget" },
  });
  t.same(at(budget.body, "contents.1.parts.1"), { inlineData: { mimeType: "image/png", data: "iVBO" } });
  const kept = { type: "image_generation_call", id: "ig_1", status: "completed", result: null };
  const named = send("openai-responses", { input: [asks, kept, asks] }, "gemini");
  t.same(named.dropped, ["input.1"], "one that the vendor stores");
  const odd = { messages: [asks, { role: "assistant", content: "A", images: ["iVBO"] }, asks] };
  t.same(send("openai-chat", odd, "gemini").dropped, ["messages.1.images"]);
});

t.test("an empty request is a 400 at the client's own field, whatever its target", async (t) => {
  const empty: Record<(typeof PROTOCOLS)[number], [JsonObject, string]> = {
    "openai-chat": [{ messages: [] }, "messages"],
    "openai-responses": [{ input: [] }, "input"],
    "anthropic-messages": [{ max_tokens: 9, messages: [] }, "messages"],
    gemini: [{ contents: [] }, "contents"],
  };
  // State of another provider's alone says nothing to the target.
  const lost = { input: [{ type: "reasoning", summary: [], encrypted_content: "gAAAAA" }] };
  for (const client of PROTOCOLS)
    for (const vendor of PROTOCOLS.filter((name) => name !== client)) {
      const [body, param] = empty[client];
      t.match(refusalOf(client, body, vendor), { status: 400, code: "invalid_field", param }, `${client} to ${vendor}`);
    }
  for (const vendor of ["anthropic-messages", "gemini"] as const)
    t.match(refusalOf("openai-responses", lost, vendor), { status: 400, param: "input" }, vendor);
});

t.test("a user turn without text is refused for Claude with advice on its text, not on its field", async (t) => {
  const refused = refusalOf("openai-chat", { messages: [{ role: "user", content: "" }] }, "anthropic-messages");
  t.match(refused, { status: 400, param: "messages.0", message: /Its text is empty: say/ });
});

t.test("23: a Gemini request in snake_case has the same meaning as in camelCase", async (t) => {
  const camel = {
    systemInstruction: { parts: [{ text: "Be brief." }] },
    contents: [
      { role: "user", parts: [{ text: "Look." }, { inlineData: { mimeType: "image/png", data: "iVBO" } }] },
      { role: "model", parts: [{ functionCall: { name: "f", args: { a_b: 1 } }, thoughtSignature: "c2ln" }] },
      { role: "user", parts: [{ functionResponse: { name: "f", response: { output: "ok" } } }] },
    ],
    tools: [{ functionDeclarations: [{ name: "f", parametersJsonSchema: { type: "object" } }] }],
    toolConfig: { functionCallingConfig: { mode: "ANY", allowedFunctionNames: ["f"] } },
    generationConfig: {
      maxOutputTokens: 2000,
      topP: 0.5,
      stopSequences: ["END"],
      thinkingConfig: { thinkingLevel: "LOW", includeThoughts: true },
    },
  };
  const snake = {
    system_instruction: { parts: [{ text: "Be brief." }] },
    contents: [
      { role: "user", parts: [{ text: "Look." }, { inline_data: { mime_type: "image/png", data: "iVBO" } }] },
      { role: "model", parts: [{ function_call: { name: "f", args: { a_b: 1 } }, thought_signature: "c2ln" }] },
      { role: "user", parts: [{ function_response: { name: "f", response: { output: "ok" } } }] },
    ],
    tools: [{ function_declarations: [{ name: "f", parameters_json_schema: { type: "object" } }] }],
    tool_config: { function_calling_config: { mode: "any", allowed_function_names: ["f"] } },
    generation_config: {
      max_output_tokens: 2000,
      top_p: 0.5,
      stop_sequences: ["END"],
      thinking_config: { thinking_level: "low", include_thoughts: true },
    },
  };
  for (const vendor of ["openai-chat", "anthropic-messages", "gemini"] as const)
    t.equal(send("gemini", snake, vendor).text, send("gemini", camel, vendor).text, vendor);
  t.equal(send("gemini", snake, "openai-chat").body["reasoning_effort"], "low");
});

t.test("24: thinkingBudget and thinkingLevel together are a 400 before the upstream is called", async (t) => {
  for (const thinkingConfig of [
    { thinkingBudget: 1024, thinkingLevel: "LOW" },
    { thinking_budget: 1024, thinking_level: "low" },
  ])
    for (const vendor of ["openai-chat", "openai-responses", "anthropic-messages"] as const)
      t.match(refusalOf("gemini", gemini({ thinkingConfig }), vendor), { status: 400, param: /thinking_?[Bb]udget$/ });
  // Nor is such a request ever written.
  for (const thinking of ["budget", "adaptive", "level"] as const) {
    const context = { max_tokens: 9000, messages: [asks], thinking: { type: "enabled", budget_tokens: 2000 } };
    const more = { output_config: { effort: "low" } };
    const { body } = send("anthropic-messages", { ...context, ...more }, "gemini", { facts: { thinking } });
    const config = at(body, "generationConfig.thinkingConfig") as JsonObject;
    t.equal("thinkingBudget" in config, !("thinkingLevel" in config), thinking);
  }
});

t.test("38: a system message between turns stays in its place and is never moved to the start", async (t) => {
  const messages = [
    { role: "system", content: "Be brief." },
    asks,
    { role: "assistant", content: "Hello." },
    { role: "user", content: "Go on." },
    { role: "system", content: "Now in French." },
    { role: "user", content: "Please." },
  ];
  const newer = send("openai-chat", { messages: messages.slice(0, 5) }, "anthropic-messages", {
    facts: { system_in_place: true },
  });
  t.same(newer.body["system"], [{ type: "text", text: "Be brief." }]);
  t.same(
    listAt(newer.body, "messages").map(({ role }) => role),
    ["user", "assistant", "user", "system"],
  );
  t.same(at(newer.body, "messages.3.content"), [{ type: "text", text: "Now in French." }]);
  t.same(newer.notices, []);
  const older = send("openai-chat", { messages }, "anthropic-messages");
  t.same(older.body["system"], [{ type: "text", text: "Be brief." }]);
  t.same(at(older.body, "messages.2.content"), [
    { type: "text", text: "Go on." },
    { type: "text", text: "<system-reminder>\nNow in French.\n</system-reminder>" },
    { type: "text", text: "Please." },
  ]);
  t.match(older.notices, [/^messages\.4: sent as text of the user/]);
  const google = send("openai-chat", { messages }, "gemini");
  t.same(at(google.body, "systemInstruction.parts"), [{ text: "Be brief." }]);
  t.same(at(google.body, "contents.2.parts.1"), { text: "<system-reminder>\nNow in French.\n</system-reminder>" });
  t.match(google.notices, [/^messages\.4: /]);
  for (const { text } of [newer, older]) t.same(faultsOf("anthropic-messages", text), []);
});

t.test("39: cache marks on Claude's system blocks are breakpoints on the same parts, in the same order", async (t) => {
  const ask = {
    max_tokens: 100,
    system: [
      { type: "text", text: "One.", cache_control: { type: "ephemeral" } },
      { type: "text", text: "Two." },
      { type: "text", text: "Three.", cache_control: { type: "ephemeral", ttl: "1h" } },
    ],
    messages: [{ role: "user", content: [{ type: "text", text: "Hi", cache_control: { type: "ephemeral" } }] }],
  };
  const explicit = { mode: "explicit" };
  const long = { mode: "explicit", ttl: "12h" };
  t.same(listAt(send("anthropic-messages", ask, "openai-chat", { facts: { cache_marks: true } }).body, "messages"), [
    {
      role: "system",
      content: [
        { type: "text", text: "One.", prompt_cache_breakpoint: explicit },
        { type: "text", text: "Two." },
        { type: "text", text: "Three.", prompt_cache_breakpoint: long },
      ],
    },
    { role: "user", content: [{ type: "text", text: "Hi", prompt_cache_breakpoint: explicit }] },
  ]);
  t.same(listAt(send("anthropic-messages", ask, "openai-responses", { facts: { cache_marks: true } }).body, "input"), [
    {
      type: "message",
      role: "system",
      content: [
        { type: "input_text", text: "One.", prompt_cache_breakpoint: explicit },
        { type: "input_text", text: "Two." },
        { type: "input_text", text: "Three.", prompt_cache_breakpoint: long },
      ],
    },
    {
      type: "message",
      role: "user",
      content: [{ type: "input_text", text: "Hi", prompt_cache_breakpoint: explicit }],
    },
  ]);
});

t.test("39: a Chat provider not known to accept cache marks gets none, which is declared", async (t) => {
  const marked = { type: "text", text: "Hi", cache_control: { type: "ephemeral", ttl: "1h" } };
  const ask = {
    max_tokens: 10,
    system: [marked],
    messages: [{ role: "user", content: [marked] }],
    cache_control: { type: "ephemeral", ttl: "1h" },
  };
  const { body, dropped } = send("anthropic-messages", ask, "openai-chat");
  t.match(listAt(body, "messages"), [{ content: "Hi" }, { content: "Hi" }], "texts stay plain");
  t.notOk("prompt_cache_options" in body);
  t.same([...dropped].sort(), ["cache_control", "messages.0.content.0.cache_control", "system.0.cache_control"]);
  t.equal(refusalOf("anthropic-messages", ask, "openai-chat", { strict: true }).code, "not_translatable");
});

t.test(
  "46: an assistant turn at the end is a 400 where the model does not continue it, and unchanged elsewhere",
  async (t) => {
    const messages = [asks, { role: "assistant", content: "Once upon" }];
    for (const vendor of ["openai-responses", "anthropic-messages", "gemini"] as const)
      t.match(refusalOf("openai-chat", { messages }, vendor, { facts: { prefill: false } }), {
        status: 400,
        param: "messages.1",
      });
    t.equal(
      refusalOf("anthropic-messages", { max_tokens: 9, messages }, "openai-chat", { facts: { prefill: false } }).param,
      "messages.1",
    );
    const { body } = send("openai-chat", { messages }, "anthropic-messages", { facts: { prefill: true } });
    t.same(at(body, "messages.1"), { role: "assistant", content: [{ type: "text", text: "Once upon" }] });
    const told = [/^messages\.1: the model may start a new message/];
    t.match(
      send("openai-chat", { messages }, "openai-responses").notices,
      told,
      "where the facts are unknown, the client is notified",
    );
    const asked = { max_tokens: 9, messages };
    t.match(send("anthropic-messages", asked, "openai-chat").notices, told);
    t.same(send("anthropic-messages", asked, "openai-chat", { facts: { prefill: true } }).notices, []);
  },
);

t.test(
  "47: without max_tokens Claude gets the model's maximum; max_tokens 0 has no equivalent elsewhere",
  async (t) => {
    t.equal(
      send("openai-chat", { messages: [asks] }, "anthropic-messages", { facts: { output: 64_000 } }).body["max_tokens"],
      64_000,
    );
    t.equal(send("openai-chat", { messages: [asks] }, "anthropic-messages").body["max_tokens"], 32_000);
    for (const vendor of ["openai-chat", "openai-responses", "gemini"] as const)
      t.match(refusalOf("anthropic-messages", { max_tokens: 0, messages: [asks] }, vendor), {
        status: 400,
        param: "max_tokens",
      });
  },
);

t.test("an output limit is within the model's maximum, whatever its vendor, and thinking stays below it", async (t) => {
  const facts = { output: 4000, thinking: "budget" } as const;
  const asked = { max_tokens: 64_000, messages: [asks], thinking: { type: "enabled", budget_tokens: 32_000 } };
  const chat = { max_tokens: 64_000, messages: [asks], reasoning_effort: "high" };
  const told = [/^max_tokens: the model's answers are at most 4000 tokens long$/];
  for (const vendor of ["openai-chat", "openai-responses", "gemini"] as const) {
    const { body, notices } = send("anthropic-messages", asked, vendor, { facts });
    const { generationConfig } = body as { generationConfig?: JsonObject };
    t.equal(generationConfig?.["maxOutputTokens"] ?? body["max_output_tokens"] ?? body["max_tokens"], 4000);
    t.match(notices, told);
    t.match(refusalOf("anthropic-messages", asked, vendor, { facts, strict: true }), { param: "max_tokens" });
    const fits = send("anthropic-messages", { ...asked, max_tokens: 4000, thinking: undefined }, vendor, { facts });
    t.same(fits.notices, []);
  }
  const claude = send("openai-chat", chat, "anthropic-messages", { facts });
  t.match(claude.body, { max_tokens: 4000, thinking: { budget_tokens: 3200 } });
  t.match(claude.notices, told);
  t.same(faultsOf("anthropic-messages", claude.text), []);
  for (const [client, body] of [
    ["anthropic-messages", asked],
    ["openai-chat", chat],
  ] as const) {
    const google = send(client, body, "gemini", { facts });
    t.equal(at(google.body, "generationConfig.thinkingConfig.thinkingBudget"), 3200);
    t.match(
      google.notices.at(-1),
      /^(thinking.budget_tokens|reasoning_effort): 3200 tokens for thinking, of at most 4000/,
    );
  }
  const few = send("anthropic-messages", { ...asked, max_tokens: 100 }, "gemini", { facts });
  t.equal(at(few.body, "generationConfig.thinkingConfig.thinkingBudget"), 512, "fewer are refused by some models");
  const count = { messages: chat.messages };
  t.same(send("openai-chat", count, "gemini", { facts }).notices, [], "a request without a limit gets no notice");
});

t.test(
  "48: a temperature above 1 is a 400 for Claude, and it is omitted where the model accepts no sampling",
  async (t) => {
    t.match(refusalOf("openai-chat", { messages: [asks], temperature: 1.5 }, "anthropic-messages"), {
      status: 400,
      param: "temperature",
      message: /between 0 and 1/,
    });
    const taken = send("openai-chat", { messages: [asks], temperature: 0.7, top_p: 0.9 }, "anthropic-messages");
    t.match(taken.body, { temperature: 0.7 });
    t.same(taken.dropped, ["top_p"], "which current models refuse beside a temperature");
    t.equal(taken.headers["anthropic-version"], "2023-06-01", "in the version that accepts sampling");
    const way = { facts: { sampling: false } };
    for (const vendor of ["openai-responses", "anthropic-messages", "gemini"] as const) {
      const { text, dropped } = send("openai-chat", { messages: [asks], temperature: 0.7, top_p: 0.9 }, vendor, way);
      t.notMatch(text, /temperature|top_?[pP]/);
      t.same(dropped, ["temperature", "top_p"], vendor);
    }
    t.match(
      refusalOf("openai-chat", { messages: [asks], temperature: 0.7 }, "anthropic-messages", { ...way, strict: true }),
      { status: 400, param: "temperature" },
    );
  },
);

t.test("49: stop sequences are a 400 where the provider uses Responses", async (t) => {
  t.match(refusalOf("openai-chat", { messages: [asks], stop: ["END"] }, "openai-responses"), {
    status: 400,
    param: "stop",
  });
  t.equal(
    refusalOf("anthropic-messages", { max_tokens: 9, messages: [asks], stop_sequences: ["END"] }, "openai-responses")
      .param,
    "stop_sequences",
  );
  t.equal(
    refusalOf("gemini", gemini({ stopSequences: ["END"] }), "openai-responses").param,
    "generationConfig.stopSequences",
  );
});

t.test("50: a JSON Schema with oneOf, $ref and pattern reaches Gemini unchanged", async (t) => {
  const schema = `{"type":"object","$defs":{"id":{"type":"string","pattern":"^[a-z]\\\\d+$"}},"properties":{"z":{"$ref":"#/$defs/id"},"a":{"oneOf":[{"type":"integer","maximum":12345678901234567890},{"type":"null"}]}},"required":["z","a"],"additionalProperties":false}`;
  const ask = `{"model":"any","messages":[{"role":"user","content":"Hi"}],"tools":[{"type":"function","function":{"name":"f","parameters":${schema}}}],"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":${schema}}}}`;
  const { text, body } = send("openai-chat", ask, "gemini");
  t.ok(text.includes(`"responseJsonSchema":${schema}`), "the answer's, character for character");
  t.ok(text.includes(`"parametersJsonSchema":${schema}`), "the tool's, character for character");
  t.equal(at(body, "generationConfig.responseMimeType"), "application/json");
});

t.test("51: a Gemini schema becomes JSON Schema for all other protocols", async (t) => {
  const ask = gemini(
    {
      responseMimeType: "application/json",
      responseSchema: {
        type: "OBJECT",
        properties: {
          b: { type: "STRING", nullable: true, minLength: "3" },
          a: { type: "ARRAY", items: { type: "INTEGER" }, maxItems: "12345678901234567890" },
        },
        propertyOrdering: ["a", "b"],
        required: ["a"],
      },
    },
    { tools: [{ functionDeclarations: [{ name: "f", parameters: { type: "OBJECT", properties: {} } }] }] },
  );
  const { text, body } = send("gemini", ask, "openai-chat");
  const expected =
    '{"type":"object","properties":{"a":{"type":"array","items":{"type":"integer"},"maxItems":12345678901234567890},"b":{"type":["string","null"],"minLength":3}},"required":["a"]}';
  t.ok(text.includes(`"schema":${expected}`), text);
  t.equal(at(body, "response_format.type"), "json_schema");
  t.same(at(body, "tools.0.function.parameters"), { type: "object", properties: {} });
  t.ok(send("gemini", ask, "openai-responses").text.includes(`"schema":${expected}`));
});

t.test("extensions of Google's Chat endpoint are translated into Gemini's own members", async (t) => {
  const thinking_config = { thinking_budget: 800, include_thoughts: true };
  const asked = {
    ...PLAIN["openai-chat"],
    extra_body: { google: { thinking_config, cached_content: "cachedContents/1" } },
  };
  const { body } = send("openai-chat", asked, "gemini", { facts: { thinking: "budget" } });
  t.same(at(body, "generationConfig.thinkingConfig"), { thinkingBudget: 800, includeThoughts: true });
  t.equal(at(body, "cachedContent"), "cachedContents/1");
  const param = "extra_body.google.cached_content";
  t.match(refusalOf("openai-chat", asked, "anthropic-messages"), { code: "not_translatable", param });
});

t.test(
  "a recursive schema is refused as an output format for Anthropic, and sent with a tool that is not strict",
  async (t) => {
    const schema = { type: "object", properties: { of: { $ref: "#" } }, required: ["of"], additionalProperties: false };
    const response_format = { type: "json_schema", json_schema: { name: "n", strict: true, schema } };
    const refused = refusalOf("openai-chat", { ...PLAIN["openai-chat"], response_format }, "anthropic-messages");
    t.match(refused, {
      code: "not_translatable",
      param: "response_format",
      message: /contains itself \(#\)/,
    });
    const tools = [{ type: "function", function: { name: "f", strict: true, parameters: schema } }];
    const { body, notices } = send("openai-chat", { ...PLAIN["openai-chat"], tools }, "anthropic-messages");
    t.same(at(body, "tools.0.input_schema"), schema);
    t.notOk(Object.hasOwn(at(body, "tools.0") as object, "strict"));
    t.match(notices, [/^tools\.0.*without strict/]);
  },
);

t.test(
  "a field that would change the answer is a 400 that names the client's own field, in every direction",
  async (t) => {
    const more: Record<(typeof PROTOCOLS)[number], [JsonObject, string]> = {
      "openai-chat": [{ logit_bias: { 50256: -100 } }, "logit_bias"],
      "openai-responses": [{ previous_response_id: "resp_1" }, "previous_response_id"],
      "anthropic-messages": [{ container: "c_1" }, "container"],
      gemini: [{ cachedContent: "cachedContents/1" }, "cachedContent"],
    };
    for (const client of PROTOCOLS)
      for (const vendor of PROTOCOLS.filter((name) => name !== client)) {
        const [member, param] = more[client];
        const refused = refusalOf(client, { ...PLAIN[client], ...member }, vendor);
        t.match(refused, { status: 400, code: "not_translatable", param }, `${client} to ${vendor}`);
        t.ok(refused.message.includes(vendor), "the message names the protocol that cannot express it");
      }
  },
);

t.test("settings without an effect are accepted in every protocol, also where nothing may be dropped", async (t) => {
  const idle: Partial<Record<(typeof PROTOCOLS)[number], JsonObject[]>> = {
    gemini: [
      gemini({}, { store: false }),
      gemini({}, { labels: {} }),
      gemini({ presencePenalty: 0, frequencyPenalty: 0 }),
      gemini({ thinkingConfig: { includeThoughts: false } }),
    ],
    "openai-responses": [{ ...PLAIN["openai-responses"], metadata: {} }],
  };
  for (const [client, bodies] of Object.entries(idle))
    for (const vendor of PROTOCOLS.filter((name) => name !== client))
      for (const body of bodies) {
        const from = client as (typeof PROTOCOLS)[number];
        t.same(send(from, body, vendor, { strict: true }).dropped, [], `${JSON.stringify(body)} to ${vendor}`);
      }
});
