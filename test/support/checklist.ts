/** What the tests of the clients' checklist have in common: a gateway before scripted providers of every protocol. */
import type { ServerResponse } from "node:http";
import type { Test } from "tap";
import { type Between, between } from "../golden/sharp-http.ts";
import { asking } from "./gateway.ts";
import { askedIn, type Line, SCRIPTS } from "./scripted.ts";
import type { SeenRequest } from "./upstream.ts";
import { PROTOCOLS, type ProtocolName } from "./vendor-sdks.ts";

/** Every client with every provider, equal protocols too. */
export const PAIRS = PROTOCOLS.flatMap((client) => PROTOCOLS.map((vendor) => [client, vendor] as const));

/** What providers answer that are asked for a count, whichever member their protocol reads. */
const COUNT = JSON.stringify({ object: "response.input_tokens", input_tokens: 7, totalTokens: 7 });

/** Answers as the script says, in the protocol and the form that was asked for. */
export const speaking =
  (line: Line) =>
  (reply: ServerResponse, request: SeenRequest): void => {
    const { vendor, stream } = askedIn(request);
    if (/count_?tokens|input_tokens/i.test(request.url)) reply.setHeader("content-type", "application/json").end(COUNT);
    else if (stream)
      reply.writeHead(200, { "content-type": "text/event-stream" }).end(SCRIPTS[vendor].frames(line).join(""));
    else reply.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(SCRIPTS[vendor].whole(line)));
  };

export interface Gate extends Between {
  /** Posts a body as it is; a text of JSON or an object. */
  post(path: string, body: unknown, headers?: Record<string, string>): Promise<Response>;
  /** Posts, and fails where the answer is not a 200. */
  fine(path: string, body: unknown, headers?: Record<string, string>): Promise<Response>;
}

/**
 * A gateway with a provider for each protocol, whose models are called `of-<protocol>`; they say a short text until told
 * otherwise.
 */
export async function gateway(t: Test, more = ""): Promise<Gate> {
  const gate = await between(t, more);
  gate.answer(speaking("text"));
  const post: Gate["post"] = (path, body, headers = {}) =>
    fetch(gate.running.url + path, {
      method: "POST",
      headers: asking(headers),
      body: typeof body === "string" ? body : JSON.stringify(body),
    });
  const fine: Gate["fine"] = async (path, body, headers) => {
    const response = await post(path, body, headers);
    if (response.status !== 200) throw new Error(`${path} ${response.status} ${await response.text()}`);
    return response;
  };
  return { ...gate, post, fine };
}

/** The path on which a protocol's clients ask for a whole answer. */
export const pathFor = (client: ProtocolName, model: string): string =>
  ({
    "openai-chat": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "anthropic-messages": "/v1/messages",
    gemini: `/v1beta/models/${model}:generateContent`,
  })[client];
