import { Body } from "../core/body.ts";
import type { DemoAnswer, DemoRequest, Protocol } from "../core/protocol.ts";
import { requestTexts } from "../core/texts.ts";
import { clientTranslationOf } from "../translation/codec.ts";
import { demoId } from "../translation/demo-script.ts";
import { encodeAnswer } from "../translation/encode-answer.ts";
import type { Event, EventOf } from "../translation/events.ts";

/** A provider's answer, independent of the protocol and of streaming. */
export interface ProviderAnswer {
  /** By default the user's last message. */
  text?: string;
  /** Reasoning before the text; none by default. */
  reasoning?: string;
  /** A tool call after the text, with its arguments; none by default. */
  call?: { name: string; arguments: unknown };
  /** Input and output tokens; 21 and 9 by default. */
  tokens?: readonly [number, number];
  /** 200; with a `body` 200 to 999. */
  status?: number;
  /** Besides `content-type`, which is that of JSON or of the stream. */
  headers?: Record<string, string>;
  /** The whole body instead of all that: text, bytes, or a value to serialize as JSON. */
  body?: unknown;
  /** Bytes of the body after which the connection breaks. */
  breakAfter?: number;
}

/** Characters of each piece of a streamed text: short, so that words are split. */
const PIECE_LENGTH = 3;
const splitText = (text: string): string[] => text.match(new RegExp(`.{1,${PIECE_LENGTH}}`, "gsu")) ?? [];

/** Yields an answer as protocol-independent events; without streaming, each text is one piece. */
function* eventsOf(
  answer: ProviderAnswer,
  echo: () => string,
  streaming: boolean,
): Generator<Exclude<Event, { type: "error" }>> {
  yield { type: "start", id: "answer-1", model: "vendors-model", created: 1_790_000_000 };
  const { reasoning, text = answer.call ? "" : echo(), call } = answer;
  const blocks: [EventOf<"open">, string][] = [];
  const place = () => ({ type: "open", block: blocks.length, choice: 0 }) as const;
  if (reasoning) blocks.push([{ ...place(), kind: "reasoning" }, reasoning]);
  if (text !== "") blocks.push([{ ...place(), kind: "text" }, text]);
  if (call)
    blocks.push([{ ...place(), kind: "tool_call", id: "call_1", name: call.name }, JSON.stringify(call.arguments)]);
  for (const [open, content] of blocks) {
    yield open;
    const { block, kind } = open;
    for (const piece of streaming ? splitText(content) : [content])
      yield { type: kind === "tool_call" ? "arguments" : "text", block, text: piece };
    yield { type: "close", block };
  }
  yield { type: "finish", choice: 0, reason: call ? "tool_calls" : "stop" };
  const [total, out] = answer.tokens ?? [21, 9];
  yield { type: "usage", usage: { in: { total }, out: { total: out }, raw: undefined } };
  yield { type: "end" };
}

/** Encodes an answer in the protocol of the request. */
export function encodeProviderAnswer(protocol: Protocol, request: DemoRequest, answer: ProviderAnswer): DemoAnswer {
  const { status = 200, headers = {}, body } = answer;
  if (body !== undefined || !clientTranslationOf(protocol) || request.operation.task !== "generate") {
    const given = body ?? {};
    const bytes = typeof given === "string" || Buffer.isBuffer(given) ? given : JSON.stringify(given);
    return { status, headers: { "content-type": "application/json", ...headers }, frames: [{ bytes }] };
  }
  if (status !== 200) throw new Error(`An answer with the status ${status} needs a body.`);
  const asked = new Body([Buffer.from(JSON.stringify(request.body ?? {}))], "json");
  const echo = () => requestTexts(asked, protocol, ["user"]).at(-1)?.text ?? "";
  const encoded = encodeAnswer(protocol, request, [...eventsOf(answer, echo, request.streaming)], demoId(request));
  return { ...encoded, headers: { ...encoded.headers, ...headers } };
}
