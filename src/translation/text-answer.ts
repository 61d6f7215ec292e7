import type { BodyAnswer, TextAnswer } from "../core/answer.ts";
import { Body } from "../core/body.ts";
import type { Exchange } from "../core/exchange.ts";
import { clientTranslationOf } from "./codec.ts";
import { encodeAnswer } from "./encode-answer.ts";
import type { Event } from "./events.ts";

/**
 * Encodes a plugin's text as the answer of a model: in the client's protocol, as a stream if the client requests one.
 * @throws TypeError where there is no conversation that a text could answer, GatewayError for an invalid request
 */
export function textAnswer(exchange: Exchange, { text, headers, ...others }: TextAnswer): BodyAnswer {
  const { protocol, operation, body, requestedModel: model = "", wantsStream: streaming, id } = exchange;
  if (typeof text !== "string") throw new TypeError("The text of an answer is a string.");
  if (Object.keys(others).length > 0)
    throw new TypeError("An answer with a text has no status or body: the engine sets both.");
  if (body === Body.empty)
    throw new TypeError(
      "Its text is encoded for the request's body, which has not been received: answer in `request` or `route`.",
    );
  if (operation.task !== "generate" || !clientTranslationOf(protocol))
    throw new TypeError(`${operation.name} of ${protocol.name} is not answered with text: give a body.`);
  const request = { operation, model, streaming, body: body.json() };
  const encoded = encodeAnswer(protocol, request, textEvents(text, model, id), id);
  const bytes = encoded.frames.map((frame) => Buffer.from(frame.bytes));
  return {
    headers: { ...encoded.headers, ...headers },
    body: streaming ? bytes : Buffer.concat(bytes),
  };
}

/** No model has read or written a token for it. */
const textEvents = (text: string, model: string, id: string): Event[] => [
  { type: "start", id, model },
  { type: "open", block: 0, choice: 0, kind: "text" },
  { type: "text", block: 0, text },
  { type: "close", block: 0 },
  { type: "finish", choice: 0, reason: "stop" },
  { type: "usage", usage: { in: { total: 0 }, out: { total: 0 }, raw: undefined } },
  { type: "end" },
];
