/** Requests and answers on their way between two protocols, through the very pieces that the gateway is made of. */

import { GatewayError } from "../../src/core/errors.ts";
import { type Facts } from "../../src/core/marketplace.ts";
import type { Operation } from "../../src/core/protocol.ts";
import { type TranslatedProtocol } from "../../src/translation/codec.ts";
import { Envelopes } from "../../src/translation/envelope.ts";
import { type ClientRequest, readRequest, writeRequest } from "../../src/translation/request.ts";
import { runAtOnce } from "../../src/translation/steps.ts";
import {
  decodeWhole,
  encodeWhole,
  type ResponseTranslation,
  StreamTranslator,
} from "../../src/translation/translator.ts";
import { Frame } from "../../src/wire/frame.ts";
import { Query } from "../../src/wire/query.ts";
import { SseSplitter } from "../../src/wire/sse.ts";
import { asList, asObject, type JsonObject } from "../../src/wire/values.ts";
import { digest } from "../support/digest.ts";
import { SPOKEN } from "../support/translations.ts";
import { accumulated, type ProtocolName } from "../support/vendor-sdks.ts";

const ENVELOPES = new Envelopes("a secret of the sharp cases");

/** Where a request goes and how it is asked. */
export interface Way {
  facts?: Facts;
  strict?: boolean;
  stream?: boolean;
  /** The provider account; `them`. */
  account?: string;
  /** Whose request it is. */
  caller?: string;
  /** The target's model; `vendor-model`. */
  model?: string;
}

/** What a client received. */
export interface Told {
  /** The values of its frames, literals left out. */
  values: JsonObject[];
  /** All of it. */
  text: string;
  /** What broke it off. */
  error?: GatewayError;
  /** What could not be told. */
  lost: string[];
}

/** What the client's own SDK makes of a stream. */
export const understood = async (client: ProtocolName, { text }: Told) =>
  digest(client, await accumulated(client, true, text));

const PATHS: Record<ProtocolName, (stream: boolean) => [path: string, rest: string, query: string]> = {
  "openai-chat": () => ["/v1/chat/completions", "", ""],
  "openai-responses": () => ["/v1/responses", "", ""],
  "anthropic-messages": () => ["/v1/messages", "", ""],
  gemini: (stream) =>
    stream
      ? ["/v1beta/models/*", "any:streamGenerateContent", "alt=sse"]
      : ["/v1beta/models/*", "any:generateContent", ""],
};

function operationOf(client: ProtocolName, stream: boolean): Operation {
  const [path, rest, query] = PATHS[client](stream);
  return SPOKEN[client].locate(path, rest, new Query(query))?.operation as Operation;
}

/** A request of one protocol, written in another, and the way of its answer back. */
export class Sent {
  /** The vendor's body. */
  readonly body: JsonObject;
  /** Its text. */
  readonly text: string;
  readonly dropped: readonly string[];
  readonly notices: readonly string[];
  readonly headers: Readonly<Record<string, string>>;
  private readonly translation: ResponseTranslation;
  private readonly lost: string[] = [];

  constructor(client: ProtocolName, asked: JsonObject | string, vendor: ProtocolName, way: Way = {}) {
    const { facts = {}, strict = false, stream = true, account = "them", caller = "", model = "vendor-model" } = way;
    const [to, from] = [SPOKEN[client] as TranslatedProtocol, SPOKEN[vendor] as TranslatedProtocol];
    const operation = operationOf(client, stream);
    const text = typeof asked === "string" ? asked : JSON.stringify(withStream(client, asked, stream));
    const received: ClientRequest = { protocol: to, operation, streaming: stream, text, caller };
    const conversation = readRequest(received, ENVELOPES);
    const target = { protocol: from, account, model, facts };
    const { encoded, names, losses, wrapped } = writeRequest(conversation, target, strict);
    this.text = encoded.body;
    this.body = JSON.parse(encoded.body) as JsonObject;
    this.headers = Object.fromEntries(encoded.headers ?? []);
    this.dropped = losses.dropped;
    this.notices = losses.notices;
    this.translation = {
      from,
      to,
      operation,
      source: { account, model },
      names,
      wrapped,
      context: {
        model: "any",
        id: "01exchange",
        created: 1_790_000_000,
        conversation: conversation,
        request: JSON.parse(text) as JsonObject,
        seal: (opaque) => ENVELOPES.seal(opaque),
        mark: (id) => id,
        remember: (callId, opaque) => ENVELOPES.remember(caller, callId, opaque),
        drop: (path) => this.lost.push(path),
      },
    };
  }

  /** What the client gets of a stream of server-sent events; cut at every `step` bytes. */
  streamed(events: string | Buffer, step = Number.MAX_SAFE_INTEGER): Told {
    const bytes = Buffer.from(events);
    const { stage } = new StreamTranslator(this.translation);
    const splitter = new SseSplitter();
    const out: Frame[] = [];
    const put = (frame: Frame) => {
      const made = stage(frame);
      out.push(...(Array.isArray(made) ? made : made ? [made] : []));
    };
    let error: GatewayError | undefined;
    try {
      for (let at = 0; at < bytes.length; at += step) splitter.push(bytes.subarray(at, at + step)).forEach(put);
      const rest = splitter.end();
      if (rest) put(new Frame("event", rest));
      put(new Frame("end", Buffer.alloc(0)));
    } catch (thrown) {
      error = thrown as GatewayError;
    }
    const frames = out.filter(({ kind }) => kind !== "end");
    const values = frames.map((frame) => asObject(frame.json())).filter((value) => value !== undefined);
    const text = frames.map(({ bytes: each }) => each.toString()).join("");
    return { values, text, lost: this.lost.splice(0), ...(error ? { error } : {}) };
  }

  /** What the client gets of a whole answer. @throws GatewayError as the gateway does */
  whole(answer: JsonObject | string): JsonObject {
    const bytes = Buffer.from(typeof answer === "string" ? answer : JSON.stringify(answer));
    return JSON.parse(
      runAtOnce(encodeWhole(this.translation, runAtOnce(decodeWhole(this.translation, bytes, undefined)))),
    ) as JsonObject;
  }

  /** What a whole answer could not tell. */
  losses(): string[] {
    return this.lost.splice(0);
  }
}

const withStream = (client: ProtocolName, asked: JsonObject, stream: boolean): JsonObject =>
  client === "gemini" ? asked : { model: "any", ...(stream ? { stream } : {}), ...asked };

/** A request of one protocol, written in another. @throws GatewayError as the gateway does */
export const send = (client: ProtocolName, asked: JsonObject | string, vendor: ProtocolName, way?: Way): Sent =>
  new Sent(client, asked, vendor, way);

/** Why a request is refused. */
export function refusalOf(client: ProtocolName, asked: JsonObject, vendor: ProtocolName, way?: Way): GatewayError {
  try {
    new Sent(client, asked, vendor, way);
  } catch (thrown) {
    if (thrown instanceof GatewayError) return thrown;
    throw thrown;
  }
  throw new Error("It was not refused.");
}

/** The plainest question of each protocol. */
export const PLAIN: Record<ProtocolName, JsonObject> = {
  "openai-chat": { messages: [{ role: "user", content: "Hi" }], stream_options: { include_usage: true } },
  "openai-responses": { input: "Hi", store: false },
  "anthropic-messages": {
    max_tokens: 1000,
    messages: [{ role: "user", content: "Hi" }],
    thinking: { type: "adaptive" },
  },
  gemini: {
    contents: [{ role: "user", parts: [{ text: "Hi" }] }],
    generationConfig: { thinkingConfig: { includeThoughts: true } },
  },
};

/** A plain question and the way of its answer. */
export const plainly = (client: ProtocolName, vendor: ProtocolName): Sent => send(client, PLAIN[client], vendor);

/** Values as a vendor's stream. */
export function streamOf(vendor: ProtocolName, values: readonly unknown[]): string {
  const named = vendor === "anthropic-messages" || vendor === "openai-responses";
  return values
    .map((value) => `${named ? `event: ${asObject(value)?.["type"]}\n` : ""}data: ${JSON.stringify(value)}\n\n`)
    .join("");
}

/** A chunk of a Chat stream with one choice. */
export const chunk = (delta: JsonObject, finish: string | null = null, more: JsonObject = {}): JsonObject => ({
  id: "chatcmpl-1",
  object: "chat.completion.chunk",
  created: 1_790_000_000,
  model: "vendor-model",
  choices: [{ index: 0, delta, finish_reason: finish }],
  ...more,
});

/** A Chat stream, with its end. */
export const chatStream = (chunks: readonly JsonObject[]): string =>
  `${streamOf("openai-chat", chunks)}data: [DONE]\n\n`;

/** A chunk of a Gemini stream, or a whole answer. */
export const candidate = (parts: readonly unknown[], finishReason?: string, more: JsonObject = {}): JsonObject => ({
  candidates: [{ content: { role: "model", parts }, ...(finishReason ? { finishReason } : {}), index: 0 }],
  modelVersion: "vendor-model",
  responseId: "r1",
  ...more,
});

/** A message of Anthropic's as a stream: each block with its deltas. */
export function messageStream(
  blocks: readonly (readonly [block: JsonObject, ...deltas: JsonObject[]])[],
  stopReason = "end_turn",
  usages: readonly [start: JsonObject, end: JsonObject] = [{ input_tokens: 10 }, { output_tokens: 5 }],
): JsonObject[] {
  const [start, end] = usages;
  const message = {
    id: "msg_1",
    type: "message",
    role: "assistant",
    model: "vendor-model",
    content: [],
    stop_reason: null,
    stop_sequence: null,
    usage: { output_tokens: 1, ...start },
  };
  return [
    { type: "message_start", message },
    ...blocks.flatMap(([block, ...deltas], index) => [
      { type: "content_block_start", index, content_block: block },
      ...deltas.map((delta) => ({ type: "content_block_delta", index, delta })),
      { type: "content_block_stop", index },
    ]),
    { type: "message_delta", delta: { stop_reason: stopReason, stop_sequence: null }, usage: end },
    { type: "message_stop" },
  ];
}

/** A whole response of OpenAI's. */
export const responseOf = (output: readonly unknown[], more: JsonObject = {}): JsonObject => ({
  id: "resp_1",
  object: "response",
  created_at: 1_790_000_000,
  status: "completed",
  model: "vendor-model",
  output,
  error: null,
  incomplete_details: null,
  ...more,
});

/** Items as a stream of OpenAI's Responses, each as short as it may be. */
export function responseStream(items: readonly JsonObject[], end: JsonObject = responseOf(items)): JsonObject[] {
  const open = { ...end, status: "in_progress", output: [] };
  const events: JsonObject[] = [
    { type: "response.created", response: open },
    ...items.flatMap((item, output_index) => [
      { type: "response.output_item.added", output_index, item },
      { type: "response.output_item.done", output_index, item },
    ]),
    { type: `response.${end["status"]}`, response: end },
  ];
  return events.map((event, sequence_number) => ({ ...event, sequence_number }));
}

/** The value at a path of names and numbers, like `messages.0.content`. */
export function at(value: unknown, path: string): unknown {
  let found = value;
  for (const step of path.split(".")) found = Array.isArray(found) ? found.at(Number(step)) : asObject(found)?.[step];
  return found;
}

/** The list of objects at a path. */
export const listAt = (value: unknown, path: string): JsonObject[] =>
  asList(at(value, path)).map((each) => asObject(each) ?? {});

/** All texts at a path of frames, put together. */
export const joinedAt = (values: readonly JsonObject[], path: string): string =>
  values.map((value) => at(value, path) ?? "").join("");
