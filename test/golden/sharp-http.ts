/** A gateway over sockets between clients of every protocol and providers of every other. */

import type { ServerResponse } from "node:http";
import type { Test } from "tap";
import { type JsonObject } from "../../src/wire/values.ts";
import { asking, type Running, startGateway } from "../support/gateway.ts";
import { type FakeUpstream, httpUpstream, type SeenRequest } from "../support/upstream.ts";
import { PROTOCOLS, type ProtocolName } from "../support/vendor-sdks.ts";
import { PLAIN } from "./sharp-cases.ts";

/** What a client got. */
export interface Got {
  status: number;
  headers: Headers;
  text: string;
  /** The connection was cut before the answer had ended as HTTP says it must. */
  cut: boolean;
}

type Answer = (reply: ServerResponse, request: SeenRequest) => unknown;

export interface Asking {
  /** True unless told otherwise. */
  stream?: boolean;
  body?: JsonObject;
  /** Without `alt=sse`: Gemini's stream is a JSON array. */
  array?: boolean;
}

export interface Between {
  running: Running;
  upstream: FakeUpstream & { seen: SeenRequest[] };
  /** What every provider answers from now on. */
  answer(answer: Answer): void;
  /** Asks a provider that speaks nothing but its own protocol. */
  ask(client: ProtocolName, vendor: ProtocolName, asking?: Asking): Promise<Got>;
  /** The last body that a provider was asked with. */
  sent(): JsonObject;
}

const PATHS: Record<ProtocolName, (model: string, asking: Asking) => string> = {
  "openai-chat": () => "/v1/chat/completions",
  "openai-responses": () => "/v1/responses",
  "anthropic-messages": () => "/v1/messages",
  gemini: (model, { stream = true, array }) =>
    `/v1beta/models/${model}:${stream ? `streamGenerateContent${array ? "" : "?alt=sse"}` : "generateContent"}`,
};

/** Path and body of a client's request. */
export function requestOf(
  client: ProtocolName,
  vendor: ProtocolName,
  asking: Asking = {},
): [path: string, body: string] {
  const { stream = true, body = PLAIN[client] } = asking;
  const { stream_options, ...rest } = body;
  const whole = client === "gemini" ? body : { model: `of-${vendor}`, stream, ...rest };
  const options = stream && stream_options ? { stream_options } : {};
  return [PATHS[client](`of-${vendor}`, asking), JSON.stringify({ ...whole, ...options })];
}

/** A gateway with a provider for each protocol, whose models are called `of-<protocol>`. It tries nothing again. */
export async function between(t: Test, more = ""): Promise<Between> {
  let act: Answer = (reply) => reply.end();
  const upstream = await httpUpstream((request, reply) => act(reply, request));
  t.teardown(() => upstream.close());
  const url = `${upstream.origin.origin}/v1`;
  const running = await startGateway(
    t,
    `providers:\n${PROTOCOLS.map((name) => `  ${name}: { url: "${url}", speaks: [${name}] }\n`).join("")}models:\n${PROTOCOLS.map((name) => `  of-${name}: { targets: [${name}:any] }\n`).join("")}retry: { attempts: 0 }\n${more}`,
  );
  return {
    running,
    upstream,
    answer: (answer) => {
      act = answer;
    },
    ask: async (client, vendor, wanted = {}) => {
      const [path, body] = requestOf(client, vendor, wanted);
      return received(await fetch(running.url + path, { method: "POST", headers: asking(), body }));
    },
    sent: () => JSON.parse(upstream.seen.at(-1)?.body.toString() ?? "null") as JsonObject,
  };
}

async function received(response: Response): Promise<Got> {
  const { status, headers } = response;
  const decoder = new TextDecoder();
  let text = "";
  let cut = false;
  try {
    for await (const piece of response.body ?? []) text += decoder.decode(piece, { stream: true });
  } catch {
    cut = true;
  }
  return { status, headers, text, cut };
}

/** Answers with a stream of events, and then ends it properly or cuts it. */
export const streaming =
  (text: string, end: "whole" | "cut" = "whole"): Answer =>
  (reply) => {
    reply.writeHead(200, { "content-type": "text/event-stream" });
    if (end === "whole") return reply.end(text);
    return reply.write(text, () => setTimeout(() => reply.destroy(), 10));
  };

/** Answers whole. */
export const answering =
  (status: number, body: string, headers: Record<string, string> = { "content-type": "application/json" }): Answer =>
  (reply) =>
    reply.writeHead(status, headers).end(body);

/** The events of a client's stream, without what keeps it alive. */
export const events = (text: string): JsonObject[] =>
  [...text.matchAll(/^data: ?(\{.*)$/gm)].map(([, json]) => JSON.parse(json as string) as JsonObject);
