import { type JsonObject } from "../../src/wire/values.ts";

/** The parts of a response that tests check. */
export interface Told {
  text: string;
  calls: { id: string; name: string; args: unknown }[];
  /** Tokens in and out. */
  tokens: [number, number];
}

/** A client for conversations in one protocol. */
export interface Client {
  /** The path of a request. */
  path(model: string, stream: boolean): string;
  /** A first request, with a tool of the given name. */
  ask(text: string, tool: string): JsonObject;
  /** What a request for reasoning has besides; nothing where `ask` already requests it. */
  readonly thinking: JsonObject;
  /** The same request with model and stream, if the path does not contain them. */
  with(body: JsonObject, model: string, stream: boolean): JsonObject;
  /** Parses a complete response. */
  read(answer: JsonObject): Told;
  /** Returns the text in a stream's events. */
  streamed(events: JsonObject[]): string;
  /** Returns the request that continues after a response: with results for its calls, or with another text. */
  next(body: JsonObject, answer: JsonObject, text: string): JsonObject;
}

const SCHEMA = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const list = (value: unknown): JsonObject[] => (value ?? []) as JsonObject[];
const inBody = (body: JsonObject, model: string, stream: boolean): JsonObject => ({ model, stream, ...body });
const at = (value: unknown, ...path: (string | number)[]): unknown =>
  path.reduce<unknown>((found, step) => (found as JsonObject | undefined)?.[step], value);
const texts = (values: readonly unknown[]): string => values.filter((value) => typeof value === "string").join("");

const chat: Client = {
  path: () => "/v1/chat/completions",
  ask: (content, name) => ({
    messages: [{ role: "user", content }],
    tools: [{ type: "function", function: { name, parameters: SCHEMA } }],
  }),
  thinking: { reasoning_effort: "high" },
  with: inBody,
  read(answer) {
    const message = at(answer, "choices", 0, "message") as JsonObject;
    const calls = list(message["tool_calls"]).map((call) => ({
      id: String(call["id"]),
      name: String(at(call, "function", "name")),
      args: JSON.parse(String(at(call, "function", "arguments"))) as unknown,
    }));
    const { prompt_tokens, completion_tokens } = answer["usage"] as Record<string, number>;
    return { text: String(message["content"] ?? ""), calls, tokens: [prompt_tokens ?? -1, completion_tokens ?? -1] };
  },
  streamed: (events) => texts(events.map((event) => at(event, "choices", 0, "delta", "content"))),
  next(body, answer, text) {
    const message = at(answer, "choices", 0, "message") as JsonObject;
    const results = list(message["tool_calls"]).map(({ id }) => ({ role: "tool", tool_call_id: id, content: text }));
    const more = results.length > 0 ? results : [{ role: "user", content: text }];
    return { ...body, messages: [...list(body["messages"]), message, ...more] };
  },
};

const responses: Client = {
  path: () => "/v1/responses",
  ask: (content, name) => ({
    input: [{ role: "user", content }],
    tools: [{ type: "function", name, parameters: SCHEMA, strict: false }],
    store: false,
    include: ["reasoning.encrypted_content"],
  }),
  thinking: { reasoning: { effort: "high" } },
  with: inBody,
  read(answer) {
    const items = list(answer["output"]);
    const uses = items.flatMap((item) => (item["type"] === "message" ? list(item["content"]) : []));
    const calls = items.filter((item) => item["type"] === "function_call");
    const { input_tokens, output_tokens } = answer["usage"] as Record<string, number>;
    return {
      text: texts(uses.map((part) => part["text"])),
      calls: calls.map((call) => ({
        id: String(call["call_id"]),
        name: String(call["name"]),
        args: JSON.parse(String(call["arguments"])) as unknown,
      })),
      tokens: [input_tokens ?? -1, output_tokens ?? -1],
    };
  },
  streamed: (events) =>
    texts(events.map((event) => (event["type"] === "response.output_text.delta" ? event["delta"] : undefined))),
  next(body, answer, output) {
    const items = list(answer["output"]);
    const calls = items.filter((item) => item["type"] === "function_call");
    const results = calls.map(({ call_id }) => ({ type: "function_call_output", call_id, output }));
    const more = results.length > 0 ? results : [{ role: "user", content: output }];
    return { ...body, input: [...list(body["input"]), ...items, ...more] };
  },
};

const messages: Client = {
  path: () => "/v1/messages",
  ask: (content, name) => ({
    max_tokens: 500,
    messages: [{ role: "user", content }],
    tools: [{ name, input_schema: SCHEMA }],
  }),
  thinking: { thinking: { type: "adaptive" } },
  with: inBody,
  read(answer) {
    const blocks = list(answer["content"]);
    const { input_tokens, output_tokens } = answer["usage"] as Record<string, number>;
    return {
      text: texts(blocks.map((block) => block["text"])),
      calls: blocks
        .filter((block) => block["type"] === "tool_use")
        .map(({ id, name, input }) => ({ id: String(id), name: String(name), args: input })),
      tokens: [input_tokens ?? -1, output_tokens ?? -1],
    };
  },
  streamed: (events) => texts(events.map((event) => at(event, "delta", "text"))),
  next(body, answer, text) {
    const blocks = list(answer["content"]);
    const calls = blocks.filter((block) => block["type"] === "tool_use");
    const results = calls.map(({ id }) => ({ type: "tool_result", tool_use_id: id, content: text }));
    const content = results.length > 0 ? results : text;
    const more = [
      { role: "assistant", content: blocks },
      { role: "user", content },
    ];
    return { ...body, messages: [...list(body["messages"]), ...more] };
  },
};

const gemini: Client = {
  path: (model, stream) => `/v1beta/models/${model}:${stream ? "streamGenerateContent?alt=sse" : "generateContent"}`,
  ask: (text, name) => ({
    contents: [{ role: "user", parts: [{ text }] }],
    tools: [{ functionDeclarations: [{ name, parametersJsonSchema: SCHEMA }] }],
    generationConfig: { thinkingConfig: { includeThoughts: true } },
  }),
  thinking: {},
  with: (body) => body,
  read(answer) {
    const parts = list(at(answer, "candidates", 0, "content", "parts"));
    const { promptTokenCount, candidatesTokenCount, thoughtsTokenCount } = answer["usageMetadata"] as Record<
      string,
      number
    >;
    return {
      text: texts(parts.filter((part) => part["thought"] !== true).map((part) => part["text"])),
      calls: parts
        .flatMap((part) => (part["functionCall"] ? [part["functionCall"] as JsonObject] : []))
        .map(({ id, name, args }) => ({ id: String(id), name: String(name), args })),
      tokens: [promptTokenCount ?? -1, (candidatesTokenCount ?? -1) + (thoughtsTokenCount ?? 0)],
    };
  },
  streamed: (events) =>
    texts(
      events.flatMap((event) =>
        list(at(event, "candidates", 0, "content", "parts")).map((part) =>
          part["thought"] === true ? undefined : part["text"],
        ),
      ),
    ),
  next(body, answer, text) {
    const content = at(answer, "candidates", 0, "content") as JsonObject;
    const results = list(content["parts"]).flatMap((part) => {
      const { id, name } = (part["functionCall"] ?? {}) as JsonObject;
      return name === undefined
        ? []
        : [{ functionResponse: { ...(id === undefined ? {} : { id }), name, response: { output: text } } }];
    });
    const parts = results.length > 0 ? results : [{ text }];
    return { ...body, contents: [...list(body["contents"]), content, { role: "user", parts }] };
  },
};

/** A client for each of the four conversation protocols. */
export const CLIENTS: Readonly<Record<string, Client>> = {
  "openai-chat": chat,
  "openai-responses": responses,
  "anthropic-messages": messages,
  gemini,
};

/** Returns the JSON of each event of a stream. */
export const eventsOf = (text: string): JsonObject[] =>
  [...text.matchAll(/^data: (\{.*)$/gm)].map(([, json]) => JSON.parse(json as string) as JsonObject);
