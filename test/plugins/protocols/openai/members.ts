import type OpenAI from "openai";
import chat from "../../../../plugins/protocols/openai-chat/index.ts";
import completions from "../../../../plugins/protocols/openai-completions/index.ts";
import embeddings from "../../../../plugins/protocols/openai-embeddings/index.ts";
import images from "../../../../plugins/protocols/openai-images/index.ts";
import responses from "../../../../plugins/protocols/openai-responses/index.ts";
import type { Protocol } from "../../../../src/core/protocol.ts";

/** A protocol of the family, and how a client of the SDKs asks in it. */
export interface Member {
  protocol: Protocol;
  ask: (client: OpenAI, model: string) => Promise<unknown>;
}

/** All of the family, by folder. */
export const MEMBERS: Readonly<Record<string, Member>> = {
  "openai-chat": {
    protocol: chat,
    ask: (client, model) => client.chat.completions.create({ model, messages: [] }),
  },
  "openai-completions": {
    protocol: completions,
    ask: (client, model) => client.completions.create({ model, prompt: "" }),
  },
  "openai-embeddings": {
    protocol: embeddings,
    ask: (client, model) => client.embeddings.create({ model, input: "" }),
  },
  "openai-images": {
    protocol: images,
    ask: (client, model) => client.images.generate({ model, prompt: "" }),
  },
  "openai-responses": {
    protocol: responses,
    ask: (client, model) => client.responses.create({ model, input: "" }),
  },
};

/** A protocol whose streams are made of chunks with `choices`, and what its chunks and requests look like. */
export interface Chunked {
  protocol: Protocol;
  /** The member of a choice, as JSON, that holds a text; one that holds none is `delta: {}` or an empty text. */
  holding: (text: string) => string;
  /** A finish reason beside `stop`. */
  finish: string;
  /** The path, and the body of a request without its model. */
  path: string;
  body: Readonly<Record<string, unknown>>;
  /** Streams an answer. */
  stream: (client: OpenAI, model: string) => Promise<AsyncIterable<{ choices: readonly object[] }>>;
}

/** Those of the family that stream chunks. */
export const CHUNKED: Readonly<Record<string, Chunked>> = {
  "openai-chat": {
    protocol: chat,
    holding: (text) => (text === "" ? '"delta":{}' : `"delta":${JSON.stringify({ content: text })}`),
    finish: "tool_calls",
    path: "/v1/chat/completions",
    body: { messages: [{ role: "user", content: "Hi" }] },
    stream: (client, model) =>
      client.chat.completions.create({ model, messages: [{ role: "user", content: "Hi" }], stream: true }),
  },
  "openai-completions": {
    protocol: completions,
    holding: (text) => `"text":${JSON.stringify(text)}`,
    finish: "length",
    path: "/v1/completions",
    body: { prompt: "Hi" },
    stream: (client, model) => client.completions.create({ model, prompt: "Hi", stream: true }),
  },
};
