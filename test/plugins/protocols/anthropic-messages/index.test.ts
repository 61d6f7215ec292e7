import Anthropic from "@anthropic-ai/sdk";
import t, { type Test } from "tap";
import protocol from "../../../../plugins/protocols/anthropic-messages/index.ts";
import { Body } from "../../../../src/core/body.ts";
import { type Provider } from "../../../../src/core/marketplace.ts";
import { type DemoRequest, type Operation } from "../../../../src/core/protocol.ts";
import { type Usage } from "../../../../src/core/usage.ts";
import { demoAnswer } from "../../../../src/translation/demo.ts";
import { Demo } from "../../../../src/upstream/demo.ts";
import { HeaderList } from "../../../../src/wire/headers.ts";
import { eventsIn } from "../../../support/recorded.ts";

const query = new URLSearchParams();

t.test("it finds its two operations, wherever they are mounted", async (t) => {
  t.match(protocol.locate("/v1/messages", "", query), {
    operation: { name: "messages", streams: "asked", generates: true },
  });
  t.match(protocol.locate("/v1/messages/count_tokens", "", query), {
    operation: { name: "count_tokens", streams: false, generates: false },
  });
  t.match(protocol.locate("/eu/v1/messages", "", query), { operation: { name: "messages" } });
  t.equal(protocol.locate("/v1/messages/batches", "", query), undefined);
});

t.test("it calls the provider below its version segment, whatever the model's name", async (t) => {
  t.same(
    protocol.paths.map((path) => protocol.locate(path, "", query)?.operation.upstream("any/model")),
    ["/messages", "/messages/count_tokens"],
  );
});

t.test("it recognises its clients by their version header or by the path", async (t) => {
  const none = new HeaderList();
  t.ok(protocol.recognises("/", new HeaderList(["Anthropic-Version", "2023-06-01"])));
  t.ok(protocol.recognises("/v1/messages", none));
  t.ok(protocol.recognises("/messages/batches", none));
  t.notOk(protocol.recognises("/v1/chat/completions", none));
  t.notOk(protocol.recognises("/v1/messagesque", none));
});

t.test("it sends the key to the provider as the vendor documents", async (t) => {
  t.same(protocol.credential("secret"), ["x-api-key", "secret"]);
});

t.test("only the vendor itself stores threads, unless the operator configures otherwise", async (t) => {
  const asked = (url: string, json: string, threads?: boolean) =>
    protocol.whyNotSendable?.(
      { name: "p", url: new URL(url), ...(threads === undefined ? {} : { threads }) } as Provider,
      new Body([Buffer.from(json)], "json"),
    );
  const create = '{"thread":{"type":"create"}}';
  t.equal(asked("https://api.anthropic.com/v1", create), undefined);
  t.equal(asked("https://elsewhere.test/v1", create, true), undefined);
  for (const url of ["https://elsewhere.test/v1", "https://notanthropic.com/v1", "https://anthropic.com.test/v1"])
    t.match(asked(url, create), { code: "not_translatable", param: "thread", details: { unsupported: ["thread"] } });
  t.match(asked("https://api.anthropic.com/v1", create, false), { param: "thread" });
  for (const json of ['{"thread":null}', "{}", '{"metadata":{"thread":1}}'])
    t.equal(asked("https://elsewhere.test/v1", json), undefined);
});

t.test("it sends a version upstream for clients without one", async (t) => {
  t.same(protocol.defaultHeaders, [["anthropic-version", "2023-06-01"]]);
  t.ok(protocol.headers.includes("anthropic-version"));
});

const operation = protocol.locate("/v1/messages", "", query)?.operation as Operation;
const demo = new Demo([protocol]);
const client = new Anthropic({ baseURL: (await demo.start()).href, apiKey: "key", maxRetries: 0 });
t.teardown(() => demo.close());

const WEATHER: Anthropic.Tool = {
  name: "get_weather",
  input_schema: {
    type: "object",
    properties: { city: { type: "string", enum: ["Oslo"] }, days: { type: "integer" } },
    required: ["city"],
  },
};

function ask(model: string, more: Partial<Anthropic.MessageCreateParamsNonStreaming> = {}) {
  const messages: Anthropic.MessageParam[] = [{ role: "user", content: "Hello, wide world!" }];
  return { model, max_tokens: 4000, messages, ...more };
}

/** Without ids, and without signatures, which are made of them: streamed and whole are two requests. */
const content = (message: Anthropic.Message) =>
  message.content.map((block) => ({ ...block, id: undefined, signature: undefined }));

t.test("a streamed answer equals the whole answer, usage included", async (t) => {
  for (const model of ["echo", "tool", "reasoning", "image", "long"]) {
    const whole = await client.messages.create(ask(model, { tools: [WEATHER] }));
    const streamed = await client.messages.stream(ask(model, { tools: [WEATHER] })).finalMessage();
    t.same(content(streamed), content(whole), model);
    t.equal(streamed.stop_reason, whole.stop_reason, model);
    t.same(streamed.usage, whole.usage, model);
    t.ok(whole.usage.output_tokens > 0, model);
    t.match(whole, { type: "message", role: "assistant", model, stop_sequence: null, _request_id: /^req_/ }, model);
  }
});

t.test("echo repeats the user's last text", async (t) => {
  const messages: Anthropic.MessageParam[] = [
    { role: "user", content: "first" },
    { role: "assistant", content: "second" },
    { role: "user", content: [{ type: "text", text: "Schöne 🌍\n\n  tschüß" }] },
  ];
  const answer = await client.messages.stream(ask("echo", { messages })).finalMessage();
  t.match(answer, { content: [{ type: "text", text: "Schöne 🌍\n\n  tschüß" }], stop_reason: "end_turn" });
});

t.test("tool calls the first tool, or the chosen one, and answers with its result", async (t) => {
  for (const create of [plain, streaming]) {
    const question = ask("tool", { tools: [{ type: "web_search_20250305", name: "web_search" }, WEATHER] });
    const first = await create(question);
    const call = first.content[0] as Anthropic.ToolUseBlock;
    t.match(first, {
      stop_reason: "tool_use",
      content: [{ type: "tool_use", name: "get_weather", input: { city: "Oslo" } }],
    });
    const result: Anthropic.ToolResultBlockParam = {
      type: "tool_result",
      tool_use_id: call.id,
      content: [{ type: "text", text: "Snow." }],
    };
    const turns: Anthropic.MessageParam[] = [
      { role: "assistant", content: first.content },
      { role: "user", content: [result] },
    ];
    const second = await create({ ...question, messages: [...question.messages, ...turns] });
    t.match(second, { stop_reason: "end_turn", content: [{ type: "text", text: "The tool answered: Snow." }] });
  }
  const other = { ...WEATHER, name: "other" };
  const chosen = await client.messages.create(
    ask("tool", { tools: [WEATHER, other], tool_choice: { type: "tool", name: "other" } }),
  );
  t.match(chosen.content, [{ name: "other" }]);
});

t.test("tool reports when it may call none", async (t) => {
  for (const more of [{}, { tools: [WEATHER], tool_choice: { type: "none" as const } }])
    t.match(await client.messages.create(ask("tool", more)), {
      content: [{ type: "text", text: /No tool/ }],
      stop_reason: "end_turn",
    });
});

t.test("reasoning thinks, signs and then answers; the signature can be sent back", async (t) => {
  const first = await client.messages.stream(ask("reasoning", { thinking: { type: "adaptive" } })).finalMessage();
  t.match(first.content, [
    { type: "thinking", thinking: /./, signature: /./ },
    { type: "text", text: "Hello, wide world!" },
  ]);
  t.ok((first.usage.output_tokens_details?.thinking_tokens ?? 0) > 0);
  const messages: Anthropic.MessageParam[] = [
    { role: "assistant", content: first.content },
    { role: "user", content: "More" },
  ];
  t.match((await client.messages.create(ask("echo", { messages }))).content, [{ text: "More" }]);
  const unasked = await client.messages.create(ask("reasoning"));
  t.match(unasked.content, [{ type: "text", text: "Hello, wide world!" }], "no thoughts for who requests none");
});

t.test("an answer longer than its limit stops there", async (t) => {
  const answer = await client.messages.stream(ask("long", { max_tokens: 20 })).finalMessage();
  t.match(answer, { stop_reason: "max_tokens", usage: { output_tokens: 20 } });
});

t.test("long comes in 400 pieces, slow waits before its first piece", async (t) => {
  const deltas = (model: string) => answer(model).frames.filter(({ bytes }) => bytes.includes("text_delta"));
  t.equal(deltas("long").length, 400);
  t.same(
    answer("slow").frames.flatMap(({ after }) => (after === undefined ? [] : [after])),
    [1500, 300, 300, 300, 300, 300],
  );
});

t.test("errors have the vendor's status, type and id", async (t) => {
  const types = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
  };
  const more = { 404: "not_found_error", 409: "conflict_error", 413: "request_too_large", 429: "rate_limit_error" };
  const late = {
    500: "api_error",
    502: "api_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
  };
  for (const [status, type] of Object.entries({ ...types, ...more, ...late }))
    t.match(
      await failed(client.messages.create(ask(`error-${status}`))),
      { status: Number(status), type, requestID: /^req_/ },
      status,
    );
  for (const status of [429, 503, 529]) t.equal(answer(`error-${status}`).headers["retry-after"], "1");
  t.match(await failed(client.messages.create(ask("gpt-9"))), {
    status: 404,
    type: "not_found_error",
    message: /has no model/,
  });
});

t.test("error-stream and cut begin correctly and end in failure", async (t) => {
  for (const [model, error] of [
    ["error-stream", { type: "api_error" }],
    ["cut", Error],
  ] as const) {
    let text = "";
    const stream = client.messages.stream(ask(model)).on("text", (piece) => {
      text += piece;
    });
    t.match(await failed(stream.finalMessage()), error, model);
    t.match(text, /^This answer/, model);
  }
});

t.test("tokens are counted as they are billed", async (t) => {
  const request = {
    messages: [{ role: "user" as const, content: "Hello, wide world!" }],
    system: "Be kind.",
    tools: [WEATHER],
  };
  const counted = await client.messages.countTokens({ model: "echo", ...request });
  const answer = await client.messages.create(ask("echo", request));
  t.equal(counted.input_tokens, answer.usage.input_tokens);
  t.match(await failed(client.messages.countTokens({ model: "nothing", ...request })), { status: 404 });
});

t.test("its streams follow the vendor's grammar", async (t) => {
  for (const model of ["echo", "tool", "reasoning", "image", "long"]) grammar(t, model);
});

function grammar(t: Test, model: string) {
  const frames = eventsIn(
    answer(model)
      .frames.map(({ bytes }) => bytes.toString())
      .join(""),
  );
  const names = frames.map((frame) => frame.event).join(" ");
  t.match(
    names,
    /^message_start (content_block_start (content_block_delta )+content_block_stop )+message_delta message_stop$/,
    model,
  );
  const types = frames.map((frame) => (frame.json() as { type: string }).type);
  t.equal(types.join(" "), names, model);
  const found = frames.reduce<Usage | undefined>((before, frame) => protocol.usage(frame.json(), before), undefined);
  const [whole] = answer(model, false).frames;
  t.same(found, protocol.usage(JSON.parse(String(whole?.bytes))), model);
}

function answer(model: string, streaming = true) {
  const request: DemoRequest = { operation, model, body: ask(model, { tools: [WEATHER] }), streaming };
  return demoAnswer(protocol, request);
}

const plain = (params: Anthropic.MessageCreateParamsNonStreaming) => client.messages.create(params);
const streaming = (params: Anthropic.MessageCreateParamsNonStreaming) => client.messages.stream(params).finalMessage();

/** What a promise is rejected with. */
const failed = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => undefined,
    (error) => error,
  );

t.test("a long list of models comes in pages, in both directions", async (t) => {
  const models = ["a", "b", "c", "d"].map((id) => ({
    id,
    name: id,
    created: 1,
    capabilities: [],
    protocols: {},
    price: {},
  }));
  const page = (query: string) => {
    const found = protocol.listing?.list(models, new URLSearchParams(query)) as {
      data: { id: string }[];
      has_more: boolean;
    };
    return [found.data.map(({ id }) => id).join(""), found.has_more];
  };
  t.same(page(""), ["abcd", false]);
  t.same(page("limit=3"), ["abc", true]);
  t.same(page("limit=3&after_id=c"), ["d", false]);
  t.same(page("after_id=d"), ["", false]);
  t.same(page("limit=2&before_id=d"), ["bc", true]);
  t.same(page("limit=3&before_id=d"), ["abc", false]);
  for (const query of ["limit=0", "limit=-1", "limit=1001", "limit=x", "after_id=nope", "before_id="])
    t.throws(() => page(query), { code: "invalid_field", param: query.split("=")[0] }, query);
});
