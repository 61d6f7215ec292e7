import { GatewayError } from "../../../../src/core/errors.ts";
import { type Facts } from "../../../../src/core/marketplace.ts";
import type {
  EncodeContext,
  EncodedFrame,
  IncomingRequest,
  ResponseContext,
  ResponseSource,
  Translation,
} from "../../../../src/translation/codec.ts";
import type { Conversation } from "../../../../src/translation/conversation.ts";
import type { Event, EventOf, Opaque } from "../../../../src/translation/events.ts";
import { ToolNames } from "../../../../src/translation/names.ts";
import { Frame } from "../../../../src/wire/frame.ts";
import { NestedJson } from "../../../../src/wire/nested.ts";

/** An envelope of tests: the opaque state as text. */
export const seal = (opaque: Opaque): string => `gw1.${Buffer.from(JSON.stringify(opaque)).toString("base64url")}`;

export const unseal = (envelope: string): Opaque =>
  JSON.parse(Buffer.from(envelope.slice("gw1.".length), "base64url").toString()) as Opaque;

/** A request as the engine hands it to a decoder. */
export function asked(body: unknown, more: Partial<IncomingRequest> = {}): IncomingRequest {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  return {
    task: "generate",
    streaming: (JSON.parse(text) as { stream?: unknown }).stream === true,
    text,
    open: (sealed, kind) =>
      sealed.startsWith("gw1.") ? unseal(sealed) : { protocol: "openai-chat", kind, data: sealed },
    isEnvelope: (sealed) => sealed.startsWith("gw1."),
    recall: () => undefined,
    ...more,
  };
}

/** What an encoder declared of a request. */
export interface Losses {
  dropped: string[];
  changed: string[];
}

/** Terms that write down what is lost. */
export function terms(facts: Facts = {}, model = "vendor-model"): EncodeContext & { losses: Losses } {
  const losses: Losses = { dropped: [], changed: [] };
  return {
    model,
    facts,
    names: new ToolNames(),
    nested: new NestedJson(),
    drop: (path) => void losses.dropped.push(path),
    change: (path) => void losses.changed.push(path),
    refuse(path, message) {
      throw new GatewayError("invalid_field", { message, param: path });
    },
    losses,
  };
}

export const source: ResponseSource = { account: "acme", model: "vendor-model" };

/** What the client asked, as far as encoders of answers look at it. */
export function context(
  request: Record<string, unknown> = {},
  more: Partial<ResponseContext> = {},
): ResponseContext & { lost: string[]; kept: Map<string, Opaque> } {
  const lost: string[] = [];
  const kept = new Map<string, Opaque>();
  const plain: Conversation = {
    protocol: "openai-chat",
    task: "generate",
    stream: false,
    turns: [],
    tools: [],
    uses: [],
  };
  return {
    model: "asked-model",
    id: "exchange",
    created: 1_700_000_000,
    conversation: plain,
    request,
    seal,
    mark: (id) => id,
    remember: (id, opaque) => void kept.set(id, opaque),
    drop: (path) => void lost.push(path),
    lost,
    kept,
    ...more,
  };
}

/** The events of a stream. */
export function streamed({ response }: Translation, frames: readonly Frame[], from: ResponseSource = source): Event[] {
  const decoder = response.decoder(from);
  const out: Event[] = [];
  for (const frame of frames) decoder.frame(frame, out);
  decoder.end(out);
  return out;
}

/** The frames that events are written as; an error ends them. */
export function written(
  { response }: Pick<Translation, "response"> | { response: Pick<Translation["response"], "encoder"> },
  events: readonly Event[],
  to: ResponseContext = context(),
): EncodedFrame[] {
  const encoder = response.encoder(to);
  const out: EncodedFrame[] = [];
  for (const event of events) if (event.type !== "error") encoder.event(event, out);
  return out;
}

/** Written frames as server-sent events. */
export const asStream = (frames: readonly EncodedFrame[]): string =>
  frames.map(({ name, data }) => `${name === undefined ? "" : `event: ${name}\n`}data: ${data}\n\n`).join("");

/** JSON as the data of one event. */
export const frameOf = (json: unknown): Frame =>
  new Frame("event", Buffer.from(`data: ${typeof json === "string" ? json : JSON.stringify(json)}\n\n`));

/** A chunk of a stream with one choice. */
export const chunk = (delta: object, finish: string | null = null, more: object = {}) => ({
  id: "chatcmpl-1",
  object: "chat.completion.chunk",
  created: 1,
  model: "gpt",
  choices: [{ index: 0, delta, finish_reason: finish }],
  ...more,
});

/** What ends a stream that is whole. */
export const DONE = "[DONE]";

/** The events of one type. */
export const only = <Type extends Event["type"]>(events: readonly Event[], type: Type): EventOf<Type>[] =>
  events.filter((event) => event.type === type) as EventOf<Type>[];
