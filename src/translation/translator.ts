import { splitInGroups } from "../core/answer-frames.ts";
import { GatewayError } from "../core/errors.ts";
import type { Head } from "../core/head.ts";
import type { Operation, Protocol } from "../core/protocol.ts";
import type { Stage } from "../core/stage.ts";
import { Frame } from "../wire/frame.ts";
import { toClientError } from "./client-error.ts";
import {
  type ClientTranslation,
  type EncodedFrame,
  type ResponseContext,
  type ResponseDecoder,
  type ResponseEncoder,
  type ResponseSource,
  requireClientTranslation,
  type ToolNameMap,
  type TranslatedProtocol,
} from "./codec.ts";
import type { Event } from "./events.ts";
import { Framing } from "./framing.ts";
import { callIdsOf, NameRestorer } from "./restore-names.ts";
import { endsStep, forEachEvent, LARGE_BODY_BYTES, piecesOfText, type Steps } from "./steps.ts";
import { weightOf } from "./weight.ts";
import { ResponseUnwrapper, type WrapKind } from "./wrap.ts";

/** Minimum milliseconds between two pings to the client. */
const PING_INTERVAL = 5_000;

/**
 * Maximum weight of a translated stream, without media and output of the vendor's own tools, which are not buffered: some
 * clients' protocols require reasoning, calls or the whole response to be repeated at the end.
 */
const MAX_WEIGHT = 16 * 1024 * 1024;

/**
 * Maximum characters of a text or of arguments in one event of a stream, so that a line of it is shorter than 64 KiB, however its
 * characters are escaped: Go's scanner, with which clients like langchaingo read streams, fails at longer ones.
 */
const MAX_STREAMED_TEXT = 8 * 1024;

/** A response in translation from one protocol to another. */
export interface ResponseTranslation {
  from: TranslatedProtocol;
  /** The client's protocol, which has a client translation at least. */
  to: Protocol;
  /** The client's operation. */
  operation: Operation;
  source: ResponseSource;
  names: ToolNameMap;
  /** Set when the response is wrapped in an object that the client did not request. */
  wrapped?: WrapKind | undefined;
  context: ResponseContext;
}

/** How a response is framed; undefined: it is one JSON text. */
type StreamFraming = "sse" | "array" | undefined;

const responseCodec = ({ to }: ResponseTranslation): ClientTranslation["response"] =>
  requireClientTranslation(to).response;

/** Tells which events a decoder or an encoder keeps. */
class KeptEvents {
  private readonly open = new Map<number, string>();

  /** @param texts whether one of them keeps texts */
  constructor(private readonly texts = false) {}

  /** Reports whether an event is kept; called with each, in their order. A text beside other open blocks may wait for them. */
  has(event: Event): boolean {
    if (event.type === "open") this.open.set(event.block, event.kind);
    else if (event.type === "close") this.open.delete(event.block);
    return event.type !== "text" || this.texts || this.open.size > 1 || this.open.get(event.block) !== "text";
  }
}

/** Returns what restores the client's own names in a response, and what removes the wrapping of its texts, if they have one. */
function restorersOf({ from, source, names, wrapped, context }: ResponseTranslation) {
  const restorer = new NameRestorer(names, from.name, source, context.id, callIdsOf(context.conversation));
  return [restorer, wrapped && new ResponseUnwrapper(wrapped)] as const;
}

/** Translates a stream frame by frame. Its stage throws where the upstream reports an error or breaks off. */
export class StreamTranslator {
  readonly framing: Framing;
  private readonly decoder: ResponseDecoder;
  private readonly encoder: ResponseEncoder;
  private readonly restorer: NameRestorer;
  private readonly unwrapper: ResponseUnwrapper | undefined;
  private ended = false;
  private lastPing: number;
  private isPingDue = false;
  private weight = 0;
  private readonly kept: KeptEvents;
  // Reused for all frames: a stream has many.
  private readonly decoded: Event[] = [];
  private readonly restored: Event[] = [];
  private readonly written: EncodedFrame[] = [];

  /** @param reserve counts what is kept of the events, as `Head.reserve` */
  constructor(
    private readonly translation: ResponseTranslation,
    private readonly reserve?: Head["reserve"],
    private readonly now: () => number = () => performance.now(),
  ) {
    const { from, operation, source, context } = translation;
    this.lastPing = now();
    this.decoder = from.translation.response.decoder(source);
    const encoder = responseCodec(translation).encoder(context);
    this.encoder = encoder;
    this.kept = new KeptEvents(this.decoder.keepsText || encoder.keepsText);
    this.framing = new Framing(operation, encoder.finished && (() => encoder.finished?.() ?? []));
    [this.restorer, this.unwrapper] = restorersOf(translation);
  }

  readonly stage: Stage = (frame) => {
    if (frame.kind === "end") return this.end(frame);
    if (this.ended) return [];
    this.decoder.frame(frame, this.decoded);
    this.encodeDecoded();
    const frames = this.framing.frames(this.written);
    if (frames.length === 0 && this.isPingDue) frames.push(new Frame("event", this.translation.to.ping));
    return frames;
  };

  private end(frame: Frame): Frame[] {
    if (!this.ended) {
      this.decoder.end(this.decoded);
      this.encodeDecoded();
      if (!this.ended) throw new GatewayError("upstream_truncated");
    } else this.written.length = 0;
    return [...this.framing.frames(this.written), ...this.framing.close(), frame];
  }

  /** Encodes all decoded events. */
  private encodeDecoded(): void {
    const { decoded, restored, written, translation } = this;
    written.length = restored.length = 0;
    this.isPingDue = false;
    for (const event of decoded) {
      if (event.type !== "media" && event.type !== "server") this.addWeight(event);
      this.restorer.restore(event, restored);
    }
    decoded.length = 0;
    const { unwrapper } = this;
    for (const event of unwrapper ? restored.flatMap((restoredEvent) => unwrapper.unwrap(restoredEvent)) : restored) {
      if (this.ended) return;
      if (event.type === "error") throw toClientError(event.fault, undefined, translation.to.overloadedStatus);
      if (event.type === "ping") this.schedulePing();
      else if (event.type === "unmapped")
        translation.context.drop(event.path, "not expressible in the client's protocol");
      else {
        if (isLonger(event, MAX_STREAMED_TEXT))
          for (const piece of piecesOfEvent(event, MAX_STREAMED_TEXT)) this.encoder.event(piece, written);
        else this.encoder.event(event, written);
        this.ended = event.type === "end";
      }
    }
  }

  private addWeight(event: Event): void {
    const weight = weightOf(event);
    this.weight += weight;
    if (this.weight > MAX_WEIGHT)
      throw new GatewayError("upstream_invalid", { message: "The provider's answer is longer than 16 MiB." });
    if (this.kept.has(event)) this.reserve?.(weight);
  }

  /** Schedules a ping to the client, because the upstream sent one. */
  private schedulePing(): void {
    const now = this.now();
    if (this.translation.operation.framing !== "sse" || now - this.lastPing < PING_INTERVAL) return;
    this.lastPing = now;
    this.isPingDue = true;
  }
}

/**
 * Decodes the events of a whole response, with the client's own tool names, in steps. Long texts become several events, so that
 * no encoder gets much at once.
 * @param framing the upstream's framing; a provider may stream an unstreamed request, or the other way round
 * @throws GatewayError the upstream's error, or `upstream_invalid`, `upstream_truncated`
 */
export function* decodeWhole(
  translation: ResponseTranslation,
  bytes: Buffer,
  framing: StreamFraming,
  maxFrame?: number,
): Steps<Event[]> {
  const { from, source } = translation;
  const { decoder, decode } = from.translation.response;
  const steps = framing
    ? decodeFrames(decoder(source), splitInGroups(bytes, framing, maxFrame))
    : decode(bytes, source);
  const decoded = yield* asUpstreamInvalid(steps);
  const restorer = new WholeRestorer(translation);
  yield* forEachEvent(cutEvents(decoded, LARGE_BODY_BYTES), (event) => restorer.add(event));
  return restorer.end();
}

/** Collects the events of a whole response, with the client's own tool names and without what wraps texts. */
class WholeRestorer {
  private readonly restored: Event[] = [];
  private readonly unwrapped: Event[] = [];
  private readonly restorer: NameRestorer;
  private readonly unwrapper: ResponseUnwrapper | undefined;

  constructor(private readonly translation: ResponseTranslation) {
    [this.restorer, this.unwrapper] = restorersOf(translation);
  }

  /** @throws GatewayError the upstream's error */
  add(event: Event): void {
    const { restored, unwrapper, translation } = this;
    if (event.type === "error") throw toClientError(event.fault, undefined, translation.to.overloadedStatus);
    if (event.type === "unmapped") translation.context.drop(event.path, "not expressible in the client's protocol");
    else if (event.type !== "ping") this.restorer.restore(event, restored);
    if (!unwrapper) return;
    for (const each of restored) this.unwrapped.push(...unwrapper.unwrap(each));
    restored.length = 0;
  }

  /** Returns all events. @throws GatewayError `upstream_truncated` */
  end(): Event[] {
    const events = this.unwrapper ? this.unwrapped : this.restored;
    if (events.at(-1)?.type !== "end") throw new GatewayError("upstream_truncated");
    return events;
  }
}

/** An event with a text or arguments. */
type TextEvent = Extract<Event, { text: string }>;

const isLonger = (event: Event, length: number): event is TextEvent => "text" in event && event.text.length > length;

/** Returns events, of which long texts are several. @param length characters of their pieces */
function* cutEvents(events: readonly Event[], length: number): Iterable<Event> {
  for (const event of events)
    if (isLonger(event, length)) yield* piecesOfEvent(event, length);
    else yield event;
}

/** Returns the pieces of an event with a long text; the first one has what belongs to all of it. */
function* piecesOfEvent(event: TextEvent, length: number): Iterable<TextEvent> {
  const { type, block } = event;
  const [first, ...others] = piecesOfText(event.text, length);
  yield { ...event, text: first ?? "" };
  for (const text of others)
    yield type === "text" && event.part !== undefined ? { type, block, text, part: event.part } : { type, block, text };
}

/** Encodes a whole response as the client's JSON text, in steps. @throws GatewayError `upstream_invalid` */
export const encodeWhole = (translation: ResponseTranslation, events: readonly Event[]): Steps<string> =>
  asUpstreamInvalid(responseCodec(translation).encode(events, translation.context));

/** Encodes a whole response as a stream, in steps. */
export function* encodeWholeAsStream(
  translation: ResponseTranslation,
  events: readonly Event[],
  framing: Framing,
): Steps<Frame[]> {
  const encoder = responseCodec(translation).encoder(translation.context);
  const frames: Frame[] = [];
  const written: EncodedFrame[] = [];
  yield* forEachEvent(cutEvents(events, MAX_STREAMED_TEXT), (event) => {
    if (event.type !== "error") encoder.event(event, written);
    for (const frame of framing.frames(written)) frames.push(frame);
    written.length = 0;
  });
  return [...frames, ...framing.close()];
}

function* decodeFrames(decoder: ResponseDecoder, groups: Iterable<readonly Frame[]>): Steps<Event[]> {
  const out: Event[] = [];
  let n = 0;
  for (const group of groups)
    for (const frame of group) {
      if (frame.kind === "end") decoder.end(out);
      else decoder.frame(frame, out);
      if (endsStep(n++)) yield;
    }
  return out;
}

/** Runs a codec; anything it throws counts as an error of the upstream's response. */
function* asUpstreamInvalid<Result>(steps: Steps<Result>): Steps<Result> {
  try {
    return yield* steps;
  } catch (thrown) {
    throw GatewayError.from(thrown, "upstream_invalid");
  }
}
