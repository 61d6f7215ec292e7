import { createDecoder } from "../../../../plugins/protocols/gemini/response.decode.ts";
import { createEncoder } from "../../../../plugins/protocols/gemini/response.encode.ts";
import type { EncodedFrame, ResponseContext, ResponseSource } from "../../../../src/translation/codec.ts";
import type { Conversation } from "../../../../src/translation/conversation.ts";
import type { Event } from "../../../../src/translation/events.ts";
import { Frame } from "../../../../src/wire/frame.ts";

/** What a client of this protocol contextFor for; its envelopes are readable, and what was lost is in `lost`. */
export function contextFor(asked: Partial<Conversation> = {}, lost: string[] = []): ResponseContext {
  const conversation: Conversation = {
    protocol: "gemini",
    task: "generate",
    stream: true,
    turns: [],
    tools: [],
    uses: [],
    ...asked,
  };
  return {
    model: "fast",
    id: "ex-1",
    created: 1,
    conversation: conversation,
    request: {},
    mark: (id) => id,
    seal: ({ protocol, kind, data }) => `gw1.${protocol}.${kind}.${data}`,
    remember: () => undefined,
    drop: (path) => lost.push(path),
  };
}

/** A client that asked to see thoughts. */
export const shown = (): ResponseContext => contextFor({ reasoning: { show: true } });

export const SOURCE: ResponseSource = { account: "google", model: "m" };

/** An event of the vendor's stream. */
export const event = (value: unknown): Frame =>
  new Frame("event", Buffer.from(`data: ${JSON.stringify(value)}\r\n\r\n`));

/** The events of a stream. */
export function read(frames: readonly Frame[], source = SOURCE): Event[] {
  const reader = createDecoder(source);
  const events: Event[] = [];
  for (const frame of frames) reader.frame(frame, events);
  reader.end(events);
  return events;
}

/** The events of a stream of one candidate: a list of parts a frame, the last one with a finish reason. */
export function readParts(frames: readonly unknown[][], finishReason = "STOP", more: object = {}): Event[] {
  return read(
    frames.map((parts, n) =>
      event({
        candidates: [
          {
            content: { role: "model", parts },
            index: 0,
            ...(n === frames.length - 1 ? { finishReason, ...more } : {}),
          },
        ],
        modelVersion: "gemini-x",
        responseId: "r1",
      }),
    ),
  );
}

/** The frames that events become. */
export function write(events: readonly Event[], context: ResponseContext = contextFor()): EncodedFrame[] {
  const writer = createEncoder(context);
  const out: EncodedFrame[] = [];
  for (const each of events) if (each.type !== "error") writer.event(each, out);
  return out;
}

/** The parts of each frame of the first candidate. */
export const partsOf = (out: readonly EncodedFrame[]): unknown[][] =>
  out.map(
    ({ data }) =>
      (JSON.parse(data) as { candidates: [{ content?: { parts: unknown[] } }] }).candidates[0].content?.parts ?? [],
  );

/** Events of an answer around its blocks. */
export const answer = (
  blocks: readonly Event[],
  finish: Event = { type: "finish", choice: 0, reason: "stop" },
): Event[] => [{ type: "start", id: "r1", model: "m" }, ...blocks, finish, { type: "end" }];
