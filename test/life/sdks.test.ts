import Anthropic from "@anthropic-ai/sdk";
import { ApiError, type Content, GoogleGenAI } from "@google/genai";
import * as genai2 from "@google/genai-2";
import type OpenAI from "openai";
import t from "tap";
import { KEY, type Running, startGateway } from "../support/gateway.ts";
import { collect, SDKS } from "../support/openai-sdks.ts";
import { until } from "../support/until.ts";

const MODELS = "echo tool reasoning image slow long error-stream cut error-401 error-404 error-429 error-500".split(
  " ",
);
const gateway = await startGateway(
  t,
  `providers: { demo: { url: "demo:" } }\nmodels:\n${MODELS.map((name) => `  ${name}: { targets: [demo:${name}] }\n`).join("")}`,
);

const SCHEMA = { type: "object", properties: { city: { type: "string", enum: ["Oslo"] } }, required: ["city"] };
const SAID = "Hello, wide world!";

/** Whether an exchange that `act` causes is logged as aborted by its client. */
async function aborts({ log }: Running, act: () => Promise<unknown>): Promise<void> {
  const before = log.lines.length;
  await act();
  const aborted = () => log.lines.slice(before).some(({ fields }) => fields["outcome"] === "aborted");
  await until(aborted, "a line that says aborted");
}

/** What a call throws. */
const failure = (call: Promise<unknown>): Promise<unknown> =>
  call.then(
    () => undefined,
    (error: unknown) => error,
  );

for (const [name, Sdk] of Object.entries(SDKS)) {
  const connect = (apiKey = KEY) => new Sdk({ baseURL: `${gateway.url}/v1`, apiKey, maxRetries: 0 });
  const client = connect();
  const chat = (model: string) => ({ model, messages: [{ role: "user" as const, content: SAID }] });

  t.test(`${name}: chat, whole and streamed, with usage and an id`, async (t) => {
    const { data, request_id } = await client.chat.completions.create(chat("echo")).withResponse();
    t.match(data, { object: "chat.completion", model: "echo", choices: [{ finish_reason: "stop" }] });
    t.equal(data.choices[0]?.message.content, SAID);
    t.match(request_id, /./);
    const asked = { ...chat("echo"), stream: true as const };
    const { items, error } = await collect(await client.chat.completions.create(asked));
    t.equal(error, undefined);
    t.equal(items.map((chunk) => chunk.choices[0]?.delta.content ?? "").join(""), SAID);
    t.notOk(
      items.some((chunk) => chunk.usage),
      "usage was not requested",
    );
    const counted = await collect(
      await client.chat.completions.create({ ...asked, stream_options: { include_usage: true } }),
    );
    t.same(counted.items.at(-1)?.choices, []);
    t.same(counted.items.at(-1)?.usage, data.usage);
  });

  t.test(`${name}: a tool loop in chat, whole and streamed`, async (t) => {
    const tools: OpenAI.ChatCompletionTool[] = [
      { type: "function", function: { name: "get_weather", parameters: SCHEMA } },
    ];
    const first = await client.chat.completions.create({ ...chat("tool"), tools });
    const call = first.choices[0]?.message.tool_calls?.[0];
    if (call?.type !== "function") return t.fail("no call");
    t.same(JSON.parse(call.function.arguments), { city: "Oslo" });
    const stream = await client.chat.completions.create({ ...chat("tool"), tools, stream: true });
    const deltas = (await collect(stream)).items.flatMap((chunk) => chunk.choices[0]?.delta.tool_calls ?? []);
    t.same(JSON.parse(deltas.map((delta) => delta.function?.arguments ?? "").join("")), { city: "Oslo" });
    const messages: OpenAI.ChatCompletionMessageParam[] = [
      ...chat("tool").messages,
      { role: "assistant", content: null, tool_calls: [call] },
      { role: "tool", tool_call_id: call.id, content: "snow" },
    ];
    const second = await client.chat.completions.create({ model: "tool", tools, messages });
    t.match(second.choices[0], { finish_reason: "stop", message: { content: "The tool answered: snow" } });
  });

  t.test(`${name}: responses, whole and streamed, and a tool loop`, async (t) => {
    const whole = await client.responses.create({ model: "echo", input: SAID });
    t.match(whole, { object: "response", status: "completed", output_text: SAID });
    const { items, error } = await collect(await client.responses.create({ model: "echo", input: SAID, stream: true }));
    t.equal(error, undefined);
    t.equal(items[0]?.type, "response.created");
    const last = items.at(-1);
    if (last?.type !== "response.completed") return t.fail(`ends with ${last?.type}`);
    t.same(last.response.usage, whole.usage);
    const tools: OpenAI.Responses.Tool[] = [
      { type: "function", name: "get_weather", parameters: SCHEMA, strict: false },
    ];
    const { output } = await client.responses.create({ model: "tool", input: SAID, tools });
    const call = output.find((item) => item.type === "function_call");
    if (!call) return t.fail("no call");
    t.same(JSON.parse(call.arguments), { city: "Oslo" });
    const input: OpenAI.Responses.ResponseInput = [
      { role: "user", content: SAID },
      call,
      { type: "function_call_output", call_id: call.call_id, output: "snow" },
    ];
    const second = await client.responses.create({ model: "tool", input, tools });
    t.equal(second.output_text, "The tool answered: snow");
  });

  t.test(`${name}: completions, embeddings and images`, async (t) => {
    const whole = await client.completions.create({ model: "echo", prompt: SAID });
    t.match(whole.choices[0], { text: SAID, finish_reason: "stop" });
    const { items } = await collect(await client.completions.create({ model: "echo", prompt: SAID, stream: true }));
    t.equal(items.map((chunk) => chunk.choices[0]?.text ?? "").join(""), SAID);
    const { data } = await client.embeddings.create({ model: "echo", input: ["one", "two"] });
    t.equal(data.length, 2);
    t.type(data[1]?.embedding[0], "number");
    const images = await client.images.generate({ model: "image", prompt: SAID });
    t.match(Buffer.from(images.data?.[0]?.b64_json ?? "", "base64").toString("latin1"), /^.PNG/);
  });

  t.test(`${name}: lists models, shows one`, async (t) => {
    const { items } = await collect(client.models.list());
    t.same(items.map(({ id }) => id).sort(), [...MODELS].sort());
    t.match(await client.models.retrieve("echo"), { id: "echo", object: "model", owned_by: String });
  });

  t.test(`${name}: errors raise the SDK's own classes`, async (t) => {
    const thrown = (model: string, key = KEY) => failure(connect(key).chat.completions.create(chat(model)));
    const unknown = await thrown("echo", "wrong-key-0123456789");
    t.ok(unknown instanceof Sdk.AuthenticationError);
    t.match(unknown, { status: 401, code: "invalid_api_key", headers: {} });
    const missing = await thrown("no-such-model");
    t.ok(missing instanceof Sdk.NotFoundError);
    t.match(missing, { status: 404, code: "model_not_found", param: "model", message: /No model "no-such-model"/ });
    t.ok((await thrown("error-429")) instanceof Sdk.RateLimitError);
    t.ok((await thrown("error-500")) instanceof Sdk.InternalServerError);
    const streamed = await failure(client.responses.create({ model: "error-429", input: SAID, stream: true }));
    t.ok(streamed instanceof Sdk.RateLimitError, "a stream is refused with a status too");
  });

  t.test(`${name}: an interrupted stream raises, an aborted one reaches the provider`, async (t) => {
    for (const model of ["cut", "error-stream"]) {
      const { items, error } = await collect(await client.chat.completions.create({ ...chat(model), stream: true }));
      t.ok(items.length > 0, model);
      t.ok(error instanceof Error, model);
    }
    await t.resolves(
      aborts(gateway, async () => {
        const stream = await client.chat.completions.create({ ...chat("slow"), stream: true });
        for await (const _ of stream) break;
        stream.controller.abort();
      }),
    );
  });
}

t.test("Anthropic's own client works as with its vendor", async (t) => {
  const connect = (apiKey = KEY) => new Anthropic({ baseURL: gateway.url, apiKey, authToken: null, maxRetries: 0 });
  const client = connect();
  const ask = (model: string): Anthropic.MessageCreateParamsNonStreaming => ({
    model,
    max_tokens: 1000,
    messages: [{ role: "user", content: SAID }],
  });

  t.test("messages, whole and streamed, with usage and an id", async (t) => {
    const { data, request_id } = await client.messages.create(ask("echo")).withResponse();
    t.match(data, { type: "message", stop_reason: "end_turn", content: [{ type: "text", text: SAID }] });
    t.match(request_id, /./);
    const streamed = await client.messages.stream(ask("echo")).finalMessage();
    t.same(streamed.content, data.content);
    t.equal(streamed.usage.output_tokens, data.usage.output_tokens);
    const token = new Anthropic({ baseURL: gateway.url, apiKey: null, authToken: KEY, maxRetries: 0 });
    t.match(await token.messages.create(ask("echo")), { content: [{ text: SAID }] }, "the key as a bearer token");
  });

  t.test("thinking keeps its signature through a tool loop", async (t) => {
    const tools: Anthropic.Tool[] = [
      { name: "get_weather", input_schema: SCHEMA as unknown as Anthropic.Tool.InputSchema },
    ];
    const thought = await client.messages
      .stream({ ...ask("reasoning"), thinking: { type: "adaptive" } })
      .finalMessage();
    t.match(thought.content[0], { type: "thinking", signature: /./ });
    const first = await client.messages.create({ ...ask("tool"), tools });
    const call = first.content.find((block) => block.type === "tool_use");
    if (!call) return t.fail("no call");
    t.same(call.input, { city: "Oslo" });
    t.match((await client.messages.stream({ ...ask("tool"), tools }).finalMessage()).content, [
      { type: "tool_use", input: { city: "Oslo" } },
    ]);
    const messages: Anthropic.MessageParam[] = [
      ...ask("tool").messages,
      { role: "assistant", content: [...thought.content, call] },
      { role: "user", content: [{ type: "tool_result", tool_use_id: call.id, content: "snow" }] },
    ];
    const second = await client.messages.create({ ...ask("tool"), tools, messages });
    t.match(second, { stop_reason: "end_turn", content: [{ text: "The tool answered: snow" }] });
  });

  t.test("counts tokens, lists models, shows one", async (t) => {
    const { input_tokens } = await client.messages.countTokens({ model: "echo", messages: ask("echo").messages });
    t.ok(input_tokens > 0);
    const { items } = await collect(client.models.list({ limit: 1000 }));
    t.same(items.map(({ id }) => id).sort(), [...MODELS].sort());
    t.match(await client.models.retrieve("echo"), {
      id: "echo",
      type: "model",
      display_name: String,
      created_at: String,
    });
  });

  t.test("errors raise the SDK's own classes", async (t) => {
    const thrown = (model: string, key = KEY) => failure(connect(key).messages.create(ask(model)));
    const unknown = await thrown("echo", "wrong-key-0123456789");
    t.ok(unknown instanceof Anthropic.AuthenticationError);
    t.match(unknown, { status: 401, type: "authentication_error", requestID: /./ });
    const missing = await thrown("no-such-model");
    t.ok(missing instanceof Anthropic.NotFoundError);
    t.match(missing, { status: 404, type: "not_found_error", message: /No model \\?"no-such-model/ });
    t.ok((await thrown("error-429")) instanceof Anthropic.RateLimitError);
    t.ok((await thrown("error-500")) instanceof Anthropic.InternalServerError);
  });

  t.test("an interrupted stream raises, an aborted one reaches the provider", async (t) => {
    for (const model of ["cut", "error-stream"]) {
      const { items, error } = await collect(await client.messages.create({ ...ask(model), stream: true }));
      t.ok(items.length > 0, model);
      t.ok(error instanceof Error, model);
    }
    await t.resolves(
      aborts(gateway, async () => {
        const stream = await client.messages.create({ ...ask("slow"), stream: true });
        for await (const _ of stream) break;
        stream.controller.abort();
      }),
    );
  });
});

const GENAI = {
  "genai 3": { Sdk: GoogleGenAI, Failure: ApiError },
  "genai 2": { Sdk: genai2.GoogleGenAI as unknown as typeof GoogleGenAI, Failure: genai2.ApiError },
};
for (const [name, { Sdk, Failure }] of Object.entries(GENAI)) {
  const connect = (apiKey = KEY) => new Sdk({ apiKey, httpOptions: { baseUrl: gateway.url } });
  const { models } = connect();
  const text = (items: readonly { text?: string | undefined }[]) => items.map((chunk) => chunk.text ?? "").join("");

  t.test(`${name}: generates, whole and streamed, with usage`, async (t) => {
    const whole = await models.generateContent({ model: "echo", contents: SAID });
    t.equal(whole.text, SAID);
    t.equal(whole.candidates?.[0]?.finishReason, "STOP");
    const { items, error } = await collect(await models.generateContentStream({ model: "echo", contents: SAID }));
    t.equal(error, undefined);
    t.equal(text(items), SAID);
    t.same(items.at(-1)?.usageMetadata, whole.usageMetadata);
  });

  t.test(`${name}: a tool loop, whole and streamed, signatures kept`, async (t) => {
    const config = { tools: [{ functionDeclarations: [{ name: "get_weather", parametersJsonSchema: SCHEMA }] }] };
    const first = await models.generateContent({ model: "tool", contents: SAID, config });
    t.same(first.functionCalls?.[0]?.args, { city: "Oslo" });
    t.match(first.candidates?.[0]?.content?.parts?.[0]?.thoughtSignature, /./);
    const { items } = await collect(await models.generateContentStream({ model: "tool", contents: SAID, config }));
    t.same(items.flatMap((chunk) => chunk.functionCalls ?? [])[0]?.args, { city: "Oslo" });
    const id = first.functionCalls?.[0]?.id ?? "";
    const contents = [
      { role: "user", parts: [{ text: SAID }] },
      first.candidates?.[0]?.content as Content,
      { role: "user", parts: [{ functionResponse: { id, name: "get_weather", response: { output: "snow" } } }] },
    ];
    const second = await models.generateContent({ model: "tool", contents, config });
    t.equal(second.text, "The tool answered: snow");
  });

  t.test(`${name}: counts, embeds, lists models, shows one`, async (t) => {
    t.ok(((await models.countTokens({ model: "echo", contents: SAID })).totalTokens ?? 0) > 0);
    const { embeddings } = await models.embedContent({ model: "echo", contents: ["one", "two"] });
    t.type(embeddings?.[0]?.values?.[0], "number");
    const { items } = await collect(await models.list());
    t.same(items.map((model) => model.name).sort(), MODELS.map((id) => `models/${id}`).sort());
    t.match(await models.get({ model: "echo" }), { name: "models/echo" });
  });

  t.test(`${name}: errors raise the SDK's own class`, async (t) => {
    const thrown = (model: string, key = KEY) =>
      failure(connect(key).models.generateContent({ model, contents: SAID }));
    for (const [error, status, words] of [
      [await thrown("echo", "wrong-key-0123456789"), 401, "UNAUTHENTICATED"],
      [await thrown("no-such-model"), 404, "NOT_FOUND"],
      [await thrown("error-429"), 429, "RESOURCE_EXHAUSTED"],
    ] as const) {
      t.ok(error instanceof Failure);
      t.match(error, { status, message: new RegExp(`"code":${status}.*"status":"${words}"`, "s") });
    }
  });

  t.test(`${name}: an interrupted stream raises, an aborted one reaches the provider`, async (t) => {
    for (const model of ["cut", "error-stream"]) {
      const { items, error } = await collect(await models.generateContentStream({ model, contents: SAID }));
      t.ok(items.length > 0, model);
      t.ok(error instanceof Error, model);
    }
    await t.resolves(
      aborts(gateway, async () => {
        const left = new AbortController();
        const asked = { model: "slow", contents: SAID, config: { abortSignal: left.signal } };
        await collect(
          (async function* () {
            for await (const chunk of await models.generateContentStream(asked)) {
              left.abort();
              yield chunk;
            }
          })(),
        );
      }),
    );
  });
}
