import { createServer } from "node:http";
import Anthropic from "@anthropic-ai/sdk";
import { type Content, GoogleGenAI, type Part } from "@google/genai";
import OpenAI from "openai";
import t, { type Test } from "tap";
import { asList, asObject, type JsonObject } from "../../src/wire/values.ts";
import { KEY, startGateway } from "../support/gateway.ts";
import { listen } from "../support/listen.ts";
import { THINKING } from "../support/thinking-vendors.ts";
import { PROTOCOLS, type ProtocolName } from "../support/vendor-sdks.ts";

const SCHEMA = { type: "object", properties: { city: { type: "string" }, days: { type: "number" } } };
const PROMPT = "How is the weather?";

/** Asks, answers each tool call as the vendor's own SDK does, and asks again. */
type Client = (url: string, model: string, stream: boolean, vendor: ProtocolName) => Promise<unknown>;

/** A streamed message with every member of its deltas: the SDK's own accumulator keeps the last list of a vendor's only. */
async function gathered(client: OpenAI, ask: OpenAI.ChatCompletionCreateParamsNonStreaming) {
  const message: JsonObject = {};
  const calls: JsonObject[] = [];
  for await (const chunk of await client.chat.completions.create({ ...ask, stream: true }))
    for (const [name, value] of Object.entries(chunk.choices[0]?.delta ?? {})) {
      if (name === "tool_calls")
        for (const { index, function: asked, ...call } of value as OpenAI.ChatCompletionChunk.Choice.Delta.ToolCall[]) {
          const before = calls[index] ?? {};
          const told = asObject(before["function"]);
          const text = `${told?.["arguments"] ?? ""}${asked?.arguments ?? ""}`;
          calls[index] = { ...before, ...call, function: { ...told, ...asked, arguments: text } };
        }
      else if (Array.isArray(value)) message[name] = [...asList(message[name]), ...value];
      else message[name] = typeof value === "string" && name !== "role" ? `${message[name] ?? ""}${value}` : value;
    }
  return { ...message, tool_calls: calls } as unknown as OpenAI.ChatCompletionMessage;
}

const CLIENTS: Record<ProtocolName, Client> = {
  "openai-chat": async (url, model, stream, vendor) => {
    const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: KEY, maxRetries: 0 });
    const tools = [{ type: "function" as const, function: { name: "get_weather", parameters: SCHEMA } }];
    const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: "user", content: PROMPT }];
    const ask = { model, messages, tools };
    const message =
      stream && vendor === "openai-chat"
        ? await gathered(client, ask)
        : ((stream
            ? await client.chat.completions.stream(ask).finalChatCompletion()
            : await client.chat.completions.create(ask)
          ).choices[0]?.message as OpenAI.ChatCompletionMessage);
    messages.push(message);
    for (const call of message.tool_calls ?? [])
      messages.push({ role: "tool", tool_call_id: call.id, content: "snow" });
    await client.chat.completions.create({ model, messages, tools });
  },
  "openai-responses": async (url, model, stream) => {
    const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: KEY, maxRetries: 0 });
    const tools = [{ type: "function" as const, name: "get_weather", parameters: SCHEMA, strict: false }];
    const input: OpenAI.Responses.ResponseInput = [{ role: "user", content: PROMPT }];
    const ask = { model, input, tools, store: false };
    const first = stream ? await client.responses.stream(ask).finalResponse() : await client.responses.create(ask);
    input.push(...(first.output as OpenAI.Responses.ResponseInputItem[]));
    for (const item of first.output)
      if (item.type === "function_call")
        input.push({ type: "function_call_output", call_id: item.call_id, output: "snow" });
    await client.responses.create({ model, input, tools, store: false });
  },
  "anthropic-messages": async (url, model, stream) => {
    const client = new Anthropic({ baseURL: url, apiKey: KEY, maxRetries: 0 });
    const tools = [{ name: "get_weather", input_schema: SCHEMA as Anthropic.Tool.InputSchema }];
    const messages: Anthropic.MessageParam[] = [{ role: "user", content: PROMPT }];
    const ask = {
      model,
      max_tokens: 4096,
      messages,
      tools,
      thinking: { type: "enabled" as const, budget_tokens: 1024 },
    };
    const first = stream ? await client.messages.stream(ask).finalMessage() : await client.messages.create(ask);
    messages.push({ role: "assistant", content: first.content });
    const calls = first.content.filter((block) => block.type === "tool_use");
    messages.push({
      role: "user",
      content: calls.map(({ id }) => ({ type: "tool_result" as const, tool_use_id: id, content: "snow" })),
    });
    await client.messages.create({ ...ask, messages });
  },
  gemini: async (url, model, stream) => {
    const client = new GoogleGenAI({ apiKey: KEY, httpOptions: { baseUrl: url } });
    const config = {
      thinkingConfig: { includeThoughts: true },
      tools: [{ functionDeclarations: [{ name: "get_weather", parametersJsonSchema: SCHEMA }] }],
    };
    const contents: Content[] = [{ role: "user", parts: [{ text: PROMPT }] }];
    const parts: Part[] = [];
    if (stream)
      for await (const chunk of await client.models.generateContentStream({ model, contents, config }))
        parts.push(...(chunk.candidates?.[0]?.content?.parts ?? []));
    else
      parts.push(
        ...((await client.models.generateContent({ model, contents, config })).candidates?.[0]?.content?.parts ?? []),
      );
    contents.push({ role: "model", parts });
    const results = parts.flatMap(({ functionCall }) =>
      functionCall
        ? [
            {
              functionResponse: {
                name: "get_weather",
                response: { output: "snow" },
                ...(functionCall.id ? { id: functionCall.id } : {}),
              },
            },
          ]
        : [],
    );
    contents.push({ role: "user", parts: results });
    await client.models.generateContent({ model, contents, config });
  },
};

/** A client that requests no thinking, and sends its second request to another gateway. */
async function unaskingClient(urls: readonly [string, string], model: string, stream: boolean) {
  const [first, second] = urls.map((baseURL) => new Anthropic({ baseURL, apiKey: KEY, maxRetries: 0 }));
  const tools = [{ name: "get_weather", input_schema: SCHEMA as Anthropic.Tool.InputSchema }];
  const messages: Anthropic.MessageParam[] = [{ role: "user", content: PROMPT }];
  const ask = { model, max_tokens: 4096, messages, tools };
  const { content } = (await (stream ? first?.messages.stream(ask).finalMessage() : first?.messages.create(ask))) ?? {};
  const results = content?.flatMap((block) =>
    block.type === "tool_use" ? [{ type: "tool_result" as const, tool_use_id: block.id, content: "snow" }] : [],
  );
  messages.push({ role: "assistant", content: content ?? [] }, { role: "user", content: results ?? [] });
  await second?.messages.create({ ...ask, messages });
  return content?.map(({ type }) => type) ?? [];
}

/** A provider that thinks, and keeps what it was asked. */
async function provider(t: Test, protocol: ProtocolName) {
  const asked: JsonObject[] = [];
  const { whole, stream } = THINKING[protocol];
  const server = createServer(async (incoming, reply) => {
    const pieces: Buffer[] = [];
    for await (const piece of incoming) pieces.push(piece as Buffer);
    const body = JSON.parse(Buffer.concat(pieces).toString()) as JsonObject;
    asked.push(body);
    const streams = body["stream"] === true || incoming.url?.includes("streamGenerateContent");
    if (!streams) return reply.setHeader("content-type", "application/json").end(JSON.stringify(whole));
    reply.setHeader("content-type", "text/event-stream");
    for (const [name, value] of stream)
      reply.write(`${name ? `event: ${name}\n` : ""}data: ${JSON.stringify(value)}\n\n`);
    return reply.end(protocol === "openai-chat" ? "data: [DONE]\n\n" : "");
  });
  return { asked, url: `http://127.0.0.1:${await listen(t, server)}/v1` };
}

const providers = Object.fromEntries(
  await Promise.all(PROTOCOLS.map(async (name) => [name, await provider(t, name)] as const)),
);
const lines = PROTOCOLS.map((name) => `  ${name}: { url: "${providers[name]?.url}", speaks: [${name}] }\n`);
const models = PROTOCOLS.map((name) => `  of-${name}: { targets: [${name}:any] }\n`);
const yaml = `providers:\n${lines.join("")}models:\n${models.join("")}envelopes: { key: "0123456789abcdefghijklmnopqrstuvwxyz" }\n`;
const gateway = await startGateway(t, yaml);
const another = await startGateway(t, yaml);

for (const vendor of PROTOCOLS)
  for (const client of PROTOCOLS)
    for (const stream of [false, true])
      t.test(
        `reasoning of ${vendor} returns to it through a ${client} client, ${stream ? "streamed" : "whole"}`,
        async (t) => {
          const asked = providers[vendor]?.asked ?? [];
          const before = asked.length;
          await CLIENTS[client](gateway.url, `of-${vendor}`, stream, vendor);
          t.equal(asked.length, before + 2, "two requests");
          const { state, expected } = THINKING[vendor];
          t.same(state(asked.at(-1) as JsonObject), expected);
        },
      );

for (const vendor of PROTOCOLS.filter((name) => name !== "anthropic-messages"))
  for (const stream of [false, true])
    t.test(
      `reasoning of ${vendor} returns to it from a client that requests none, through another gateway, ${stream ? "streamed" : "whole"}`,
      async (t) => {
        const asked = providers[vendor]?.asked ?? [];
        const types = await unaskingClient([gateway.url, another.url], `of-${vendor}`, stream);
        t.notOk(types.includes("thinking"));
        t.equal(types.at(-1), "tool_use");
        const { state, expected } = THINKING[vendor];
        t.same(state(asked.at(-1) as JsonObject), expected);
      },
    );
