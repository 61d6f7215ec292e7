import protocol from "../../../../plugins/protocols/anthropic-messages/index.ts";
import { type Facts } from "../../../../src/core/marketplace.ts";
import type {
  EncodedFrame,
  IncomingRequest,
  ResponseContext,
  ResponseSource,
  Translation,
} from "../../../../src/translation/codec.ts";
import type { Conversation, Part, Turn } from "../../../../src/translation/conversation.ts";
import type { Event, Opaque } from "../../../../src/translation/events.ts";
import { ToolNames } from "../../../../src/translation/names.ts";
import { runAtOnce } from "../../../../src/translation/steps.ts";
import { Frame } from "../../../../src/wire/frame.ts";
import { NestedJson } from "../../../../src/wire/nested.ts";
import { type JsonObject } from "../../../../src/wire/values.ts";
import { recorded } from "../../../support/recorded.ts";

export const NAME = "anthropic-messages";
export const translation = protocol.translation as Translation;
export const SOURCE: ResponseSource = { account: "them", model: "claude" };

/** What a request of this protocol says. */
export function read(body: JsonObject | string, more: Partial<IncomingRequest> = {}): Conversation {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  const task = more.task ?? "generate";
  return runAtOnce(
    translation.request.decode({
      task,
      streaming: /"stream":\s*true/.test(text),
      text,
      open: (data, kind) => ({ protocol: NAME, kind, data }),
      isEnvelope: () => false,
      recall: () => undefined,
      ...more,
    }),
  );
}

/** A request with a question, and more. */
export const question = (more: JsonObject = {}): JsonObject => ({
  model: "claude",
  max_tokens: 1000,
  messages: [{ role: "user", content: "Hi" }],
  ...more,
});

/** A conversation of a client of another protocol. */
export function conversation(
  turns: readonly [Turn["role"], ...Part[]][],
  more: Partial<Conversation> = {},
): Conversation {
  return {
    protocol: "acme-chat",
    task: "generate",
    stream: false,
    turns: turns.map(([role, ...parts], i) => ({ role, at: `messages.${i}`, parts })),
    tools: [],
    uses: [],
    ...more,
  };
}

export const text = (content: string, at = "messages.0.content"): Part => ({ kind: "text", text: content, at });

/** A request as it is written for the vendor, with what it cost. */
export function write(asked: Conversation, facts: Facts = {}, model = "claude", url?: URL) {
  const dropped: string[] = [];
  const changed: string[] = [];
  const names = new ToolNames();
  const encoded = runAtOnce(
    translation.request.encode(asked, {
      model,
      facts,
      names,
      ...(url && { url }),
      nested: new NestedJson(),
      drop: (path) => dropped.push(path),
      change: (path, why) => changed.push(`${path}: ${why}`),
      refuse(path, why): never {
        throw new Error(`${path}: ${why}`);
      },
    }),
  );
  return { ...encoded, text: encoded.body, body: JSON.parse(encoded.body) as JsonObject, dropped, changed, names };
}

/** The events of a stream of frames, given as objects whose `type` names them. */
export function events(frames: readonly (JsonObject | string)[], source = SOURCE): Event[] {
  const out: Event[] = [];
  const decoder = translation.response.decoder(source);
  for (const frame of frames) {
    const bytes = typeof frame === "string" ? frame : `event: ${frame["type"]}\ndata: ${JSON.stringify(frame)}\n\n`;
    decoder.frame(new Frame("event", Buffer.from(bytes)), out);
  }
  decoder.end(out);
  return out;
}

/** What the writer of an answer is given; `lost` collects what could not be told. */
export function context(more: Partial<ResponseContext> = {}): ResponseContext & { lost: string[] } {
  const lost: string[] = [];
  return {
    model: "asked",
    id: "01exchange",
    created: 1_790_000_000,
    conversation: conversation([["user", text("Hi")]], { reasoning: { budget: -1 } }),
    request: question(),
    mark: (id) => id,
    seal: ({ kind, data, on }: Opaque) =>
      `gw1.${kind}.${data}${on === undefined ? "" : `.on-${typeof on === "string" ? on : Object.values(on)}`}`,
    remember: () => {},
    drop: (path) => lost.push(path),
    lost,
    ...more,
  };
}

/** The frames of a stream. */
export function streamed(told: readonly Event[], wanted: ResponseContext = context()): EncodedFrame[] {
  const out: EncodedFrame[] = [];
  const encoder = translation.response.encoder(wanted);
  for (const event of told) if (event.type !== "error") encoder.event(event, out);
  return out;
}

export const frames = (told: readonly Event[], wanted?: ResponseContext): JsonObject[] =>
  streamed(told, wanted).map(({ data }) => JSON.parse(data) as JsonObject);

export const whole = (told: readonly Event[], wanted: ResponseContext = context()): JsonObject =>
  JSON.parse(runAtOnce(translation.response.encode(told, wanted))) as JsonObject;

/** Frames as server-sent events. */
export const sse = (written: readonly EncodedFrame[]): string =>
  written.map(({ name, data }) => `event: ${name}\ndata: ${data}\n\n`).join("");

/** An answer around its blocks. */
export const answer = (...blocks: Event[]): Event[] => [
  { type: "start", id: "gen-1", model: "theirs" },
  ...blocks,
  { type: "finish", choice: 0, reason: "stop" },
  { type: "usage", usage: { in: { total: 10 }, out: { total: 5 }, raw: {} } },
  { type: "end" },
];

/** An `open` of a block. */
export const open = (block: number, opening: object): Event =>
  ({ type: "open", block, choice: 0, ...opening }) as Event;

/** The recorded requests of this protocol; none where the recordings are absent. */
export function requests(): { id: string; body: JsonObject; task: "generate" | "count" }[] {
  return [...recorded("anthropic"), ...recorded("anthropic-count-tokens")].flatMap(({ id, protocol, request }) =>
    request ? [{ id, body: request, task: protocol === "anthropic" ? ("generate" as const) : "count" }] : [],
  );
}
