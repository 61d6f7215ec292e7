import OpenAI from "openai";
import { createDecoder } from "../../../../plugins/protocols/openai-responses/response.decode.ts";
import { createEncoder } from "../../../../plugins/protocols/openai-responses/response.encode.ts";
import type { EncodedFrame, ResponseContext, ResponseSource } from "../../../../src/translation/codec.ts";
import type { Event, Opening } from "../../../../src/translation/events.ts";
import { Frame } from "../../../../src/wire/frame.ts";
import { type JsonObject } from "../../../../src/wire/values.ts";
import { receiving } from "../../../support/openai-sdks.ts";

export const SOURCE: ResponseSource = { account: "them", model: "theirs" };

/** What an encoder is given, with an envelope that can be read, and the paths of what it lost. */
export function withLosses(request: JsonObject = {}): { context: ResponseContext; lost: string[] } {
  const lost: string[] = [];
  const context: ResponseContext = {
    model: "ours",
    id: "exchange-1",
    created: 1790000000,
    conversation: {
      protocol: "openai-responses",
      task: "generate",
      stream: true,
      turns: [],
      tools: [],
      uses: [],
    },
    request,
    mark: (id) => id,
    seal: ({ kind, data, on }) => `gw1.${kind}.${data}.${typeof on === "object" ? Object.values(on) : (on ?? "")}`,
    remember: () => {},
    drop: (path) => lost.push(path),
  };
  return { context, lost };
}

/** The frames that events become. */
export function written(events: readonly Event[], { context } = withLosses()): EncodedFrame[] {
  const out: EncodedFrame[] = [];
  const writer = createEncoder(context);
  for (const event of events) if (event.type !== "error") writer.event(event, out);
  return out;
}

export const valuesOf = (frames: readonly EncodedFrame[]): JsonObject[] =>
  frames.map(({ data }) => JSON.parse(data) as JsonObject);

/** Frames as a body. */
export const bodyOf = (frames: readonly EncodedFrame[]): string =>
  frames.map(({ name, data }) => `${name === undefined ? "" : `event: ${name}\n`}data: ${data}\n\n`).join("");

/** What the vendor's SDK makes of a stream, without what it adds itself. @throws what the SDK throws */
export async function accumulated(body: string): Promise<JsonObject> {
  const stream = receiving(OpenAI, body).responses.stream({ model: "ours", input: "" });
  const { output_text: _, output_parsed: __, ...rest } = await stream.finalResponse();
  const added = new Set(["parsed", "parsed_arguments"]);
  return JSON.parse(JSON.stringify(rest, (name, value) => (added.has(name) ? undefined : value))) as JsonObject;
}

/** A frame as it comes: an object whose type is its event's name, or other data. */
export function frame(value: JsonObject | string): Frame {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  const name = typeof value === "string" ? "" : `event: ${String(value["type"])}\n`;
  return new Frame("event", Buffer.from(`${name}data: ${text}\n\n`));
}

/** The events that a stream becomes. */
export function decoded(values: readonly (JsonObject | string)[], source: ResponseSource = SOURCE): Event[] {
  const out: Event[] = [];
  const reader = createDecoder(source);
  for (const value of values) reader.frame(frame(value), out);
  reader.end(out);
  return out;
}

/** An answer with the given blocks, each with its events between opening and end. */
export function answer(
  blocks: readonly (readonly [Opening, ...BlockEvent[]])[],
  reason: Extract<Event, { type: "finish" }>["reason"] = "stop",
): Event[] {
  const body = blocks.flatMap(([opening, ...events], block): Event[] => [
    { type: "open", block, choice: 0, ...opening },
    ...events.map((event) => ({ ...event, block }) as Event),
    { type: "close", block },
  ]);
  return [
    { type: "start", id: "up-1", model: "theirs", created: 1790000001 },
    ...body,
    { type: "finish", choice: 0, reason },
    { type: "usage", usage: { in: { total: 7 }, out: { total: 9 }, raw: {} } },
    { type: "end" },
  ];
}

type WithoutBlock<T> = T extends { block: number } ? Omit<T, "block"> : never;
/** What a block can hold. */
export type BlockEvent = WithoutBlock<Exclude<Event, { type: "open" | "close" }>>;

export const text = (text: string, part?: number): BlockEvent => ({
  type: "text",
  text,
  ...(part === undefined ? {} : { part }),
});
export const args = (text: string): BlockEvent => ({ type: "arguments", text });

/** The items of a whole response that events become. */
export function outputOf(frames: readonly EncodedFrame[]): JsonObject[] {
  const last = valuesOf(frames).at(-1)?.["response"] as JsonObject;
  return last["output"] as JsonObject[];
}
