import Anthropic from "@anthropic-ai/sdk";
import { GoogleGenAI } from "@google/genai";
import OpenAI from "openai";
import { KEY } from "./key.ts";

/** How to send requests with a vendor's official SDK. */
export interface Asking {
  /** The gateway's address without a path. */
  url: string;
  model: string;
  stream: boolean;
  headers?: Record<string, string>;
  /** Replaces the network. Gemini's SDK uses the global fetch: only one at a time then. */
  fetch?: typeof fetch;
}

export const PROTOCOLS = ["openai-chat", "openai-responses", "anthropic-messages", "gemini"] as const;
export type ProtocolName = (typeof PROTOCOLS)[number];

const PROMPT = "Say something.";

const options = ({ headers = {}, fetch }: Asking) => ({
  apiKey: KEY,
  maxRetries: 0,
  defaultHeaders: headers,
  ...(fetch ? { fetch } : {}),
});

/** Returns the result of a protocol's SDK for a plain question; throws the SDK's error. */
export const ASK: Record<ProtocolName, (asking: Asking) => Promise<unknown>> = {
  "openai-chat": async (asking) => {
    const { url, model, stream } = asking;
    const client = new OpenAI({ baseURL: `${url}/v1`, ...options(asking) });
    const messages = [{ role: "user" as const, content: PROMPT }];
    if (!stream) return client.chat.completions.create({ model, messages });
    return client.chat.completions
      .stream({ model, messages, stream_options: { include_usage: true } })
      .finalChatCompletion();
  },
  "openai-responses": async (asking) => {
    const { url, model, stream } = asking;
    const client = new OpenAI({ baseURL: `${url}/v1`, ...options(asking) });
    const ask = { model, input: PROMPT };
    return stream ? client.responses.stream(ask).finalResponse() : client.responses.create(ask);
  },
  "anthropic-messages": async (asking) => {
    const { url, model, stream } = asking;
    const client = new Anthropic({ baseURL: url, ...options(asking) });
    const ask = { model, max_tokens: 1024, messages: [{ role: "user" as const, content: PROMPT }] };
    return stream ? client.messages.stream(ask).finalMessage() : client.messages.create(ask);
  },
  gemini: async (asking) => {
    const before = globalThis.fetch;
    globalThis.fetch = asking.fetch ?? before;
    try {
      return await askGemini(asking);
    } finally {
      if (asking.fetch) globalThis.fetch = before;
    }
  },
};

async function askGemini({ url, model, stream, headers }: Asking): Promise<unknown> {
  const client = new GoogleGenAI({ apiKey: KEY, httpOptions: { baseUrl: url, headers: headers ?? {} } });
  const ask = { model, contents: PROMPT, config: { thinkingConfig: { includeThoughts: true } } };
  if (!stream) return client.models.generateContent(ask);
  const chunks: unknown[] = [];
  for await (const chunk of await client.models.generateContentStream(ask)) chunks.push(chunk);
  if (chunks.length === 0) throw new Error("no chunks");
  return chunks;
}

/** Returns the result of a protocol's SDK for a given response body. */
export function accumulated(protocol: ProtocolName, stream: boolean, body: string): Promise<unknown> {
  const type = stream ? "text/event-stream" : "application/json";
  const fetch = async () => new Response(body, { headers: { "content-type": type } });
  return ASK[protocol]({ url: "http://localhost", model: "any", stream, fetch });
}
