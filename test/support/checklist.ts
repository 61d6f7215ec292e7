/** Shared by tests of the clients' checklist: a gateway in front of scripted providers of every protocol. */
import type { ServerResponse } from "node:http";
import type { Test } from "tap";
import { type Between, between } from "../golden/sharp-http.ts";
import { asking } from "./key.ts";
import { type AnswerKind, askedIn, SCRIPTS } from "./scripted.ts";
import type { SeenRequest } from "./upstream.ts";
import { PROTOCOLS, type ProtocolName } from "./vendor-sdks.ts";

/** Every client with every provider, including equal protocols. */
export const PAIRS = PROTOCOLS.flatMap((client) => PROTOCOLS.map((vendor) => [client, vendor] as const));

/** Providers' response to token counts, with the members of all protocols. */
const COUNT = JSON.stringify({ object: "response.input_tokens", input_tokens: 7, totalTokens: 7 });

/** Responds with a script, in the requested protocol and form. */
export const speaking =
  (answer: AnswerKind) =>
  (reply: ServerResponse, request: SeenRequest): void => {
    const { vendor, stream } = askedIn(request);
    if (/count_?tokens|input_tokens/i.test(request.url)) reply.setHeader("content-type", "application/json").end(COUNT);
    else if (stream)
      reply.writeHead(200, { "content-type": "text/event-stream" }).end(SCRIPTS[vendor].frames(answer).join(""));
    else
      reply.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(SCRIPTS[vendor].whole(answer)));
  };

export interface ChecklistGateway extends Between {
  /** Posts a body unchanged; JSON text or an object. */
  post(path: string, body: unknown, headers?: Record<string, string>): Promise<Response>;
  /** Posts, and fails if the status is not 200. */
  fine(path: string, body: unknown, headers?: Record<string, string>): Promise<Response>;
}

/** Starts a gateway with a provider for each protocol, with models `of-<protocol>`; they respond with a short text by default. */
export async function gateway(t: Test, more = ""): Promise<ChecklistGateway> {
  const gate = await between(t, more);
  gate.answer(speaking("text"));
  const post: ChecklistGateway["post"] = (path, body, headers = {}) =>
    fetch(gate.running.url + path, {
      method: "POST",
      headers: asking(headers),
      body: typeof body === "string" ? body : JSON.stringify(body),
    });
  const fine: ChecklistGateway["fine"] = async (path, body, headers) => {
    const response = await post(path, body, headers);
    if (response.status !== 200) throw new Error(`${path} ${response.status} ${await response.text()}`);
    return response;
  };
  return { ...gate, post, fine };
}

/** Returns the path for a protocol's requests that are not streamed. */
export const pathFor = (client: ProtocolName, model: string): string =>
  ({
    "openai-chat": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "anthropic-messages": "/v1/messages",
    gemini: `/v1beta/models/${model}:generateContent`,
  })[client];
