/** Encodes events as a response to a request that no provider gets: of the demo, of the test kit, or a text of a plugin. */
import type { DemoAnswer, DemoFrame, DemoRequest, Operation, Protocol } from "../core/protocol.ts";
import { type ClientTranslation, type EncodedFrame, type ResponseContext, requireClientTranslation } from "./codec.ts";
import type { Conversation } from "./conversation.ts";
import { demoStream, demoWhole } from "./demo-script.ts";
import type { Event } from "./events.ts";
import { Framing } from "./framing.ts";
import { runAtOnce } from "./steps.ts";

/** An event, and the milliseconds to wait before it. */
export type TimedEvent = Event & { after?: number };

/**
 * Encodes any events as a response of a protocol, with its own codec: a stream, or one body.
 * @throws Error for a protocol without a translation, GatewayError for an invalid request
 */
export function encodeAnswer(
  protocol: Protocol,
  request: DemoRequest,
  events: readonly TimedEvent[],
  id: string,
): DemoAnswer {
  const codec = requireClientTranslation(protocol);
  const context = answerContext(request, decodeAnswered(protocol, codec, request), id);
  if (!request.streaming) return demoWhole(JSON.parse(runAtOnce(codec.response.encode(events, context))));
  const { framing, frames } = encodeEvents(codec, request.operation, events, context);
  for (const { bytes } of framing.close()) frames.push({ bytes });
  return demoStream(frames, framing.type);
}

/** Decodes a request as it is: the state in it is opened by nobody. @throws GatewayError for an invalid one */
export function decodeAnswered(protocol: Protocol, codec: ClientTranslation, request: DemoRequest): Conversation {
  const { operation, streaming, body } = request;
  const steps = codec.request.decode({
    task: operation.task ?? "generate",
    streaming,
    text: JSON.stringify(body ?? {}),
    open: (data, kind) => ({ protocol: protocol.name, kind, data }),
    isEnvelope: () => false,
    recall: () => undefined,
  });
  return runAtOnce(steps);
}

/** Returns what the encoder of such a response needs. */
export function answerContext(request: DemoRequest, conversation: Conversation, id: string): ResponseContext {
  const body = (request.body ?? {}) as Record<string, unknown>;
  return {
    model: typeof body["model"] === "string" ? body["model"] : request.model,
    id,
    created: Math.floor(Date.now() / 1000),
    conversation,
    request: body,
    seal: ({ data }) => data,
    mark: (id) => id,
    remember: () => {},
    drop: () => {},
  };
}

/** Encodes events as the frames of a stream that is not closed yet. */
export function encodeEvents(
  codec: ClientTranslation,
  operation: Operation,
  events: readonly TimedEvent[],
  context: ResponseContext,
): { framing: Framing; frames: DemoFrame[] } {
  const encoder = codec.response.encoder(context);
  const framing = new Framing(operation);
  const frames: DemoFrame[] = [];
  const written: EncodedFrame[] = [];
  for (const { after, ...event } of events) {
    written.length = 0;
    if (event.type !== "error") encoder.event(event, written);
    const [first, ...others] = framing.frames(written);
    if (first) frames.push({ bytes: first.bytes, ...(after === undefined ? {} : { after }) });
    for (const { bytes } of others) frames.push({ bytes });
  }
  return { framing, frames };
}
