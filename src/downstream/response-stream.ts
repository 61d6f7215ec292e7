import { END_FRAME, splitterOf } from "../core/answer-frames.ts";
import { GatewayError, stalledClientError } from "../core/errors.ts";
import type { AbortListener, ActiveResponse, Exchange } from "../core/exchange.ts";
import { toPluginError } from "../core/plugin-deadline.ts";
import type { Protocol, StreamState } from "../core/protocol.ts";
import { runStages, type Stage } from "../core/stage.ts";
import { errorInFrame } from "../upstream/first-frame.ts";
import type { UpstreamAnswer } from "../upstream/received-answer.ts";
import type { BodyReceiver } from "../upstream/response.ts";
import { ArraySplitter } from "../wire/array.ts";
import { Frame } from "../wire/frame.ts";
import { inOwnMemory } from "../wire/own-memory.ts";
import { totalLength } from "../wire/pieces.ts";
import type { SseSplitter } from "../wire/sse.ts";
import type { ResponseWriter } from "./response-writer.ts";

/** Maximum bytes and milliseconds for which a stream is read after its client has left, where only its usage is outstanding. */
const BRIEF_BYTES = 64 * 1024;
const BRIEF_TIME = 250;

/** Bytes of a chunk whose processing is timed, and milliseconds after which other requests get a turn before the next one. */
const [LARGE_CHUNK, TURN_TIME] = [16 * 1024, 5];

/** The end of an array that its provider has not closed. */
const ARRAY_END = new Frame("element", Buffer.from("\n]"));

/** Reports whether a frame is an error sent among events as bare JSON, without `data:` and the blank line that ends an event. */
const isBareError =
  (protocol: Protocol) =>
  (frame: Frame): boolean =>
    frame.kind === "event" && frame.text === undefined && protocol.ending(frame) === "error";

const tookLong = (began: number | undefined): boolean => began !== undefined && performance.now() - began > TURN_TIME;

/** Reports whether a frame may have something to redact; nearly all have not. */
const mayHoldSecret = (frame: Frame): boolean => frame.hasComment || frame.mayHoldError;

/** Returns the bytes of frames that are sent to the client. */
function bytesOf(frames: readonly Frame[]): Buffer[] {
  const [first] = frames;
  // `push` would take the room of 17.
  if (frames.length === 1 && first && first.kind !== "end") return [first.bytes];
  const bytes: Buffer[] = [];
  for (const frame of frames) if (frame.kind !== "end") bytes.push(frame.bytes);
  return bytes;
}

/**
 * A response in progress: upstream chunks become frames, pass the stages and are sent at once. A chunk whose frames are all
 * unchanged is sent as the same buffer; nothing of an incomplete frame is sent, so that anything written next starts at a frame
 * boundary.
 */
export class ResponseStream implements BodyReceiver, ActiveResponse, AbortListener {
  readonly state: StreamState;
  /** Whether a stage keeps the state, because the client's frames are not the upstream's. */
  private readonly stageKeepsState: boolean;
  private readonly splitter: SseSplitter | ArraySplitter | undefined;
  /** Bytes of the incomplete frame. */
  private bufferedBytes = 0;
  /** Ends the wait for a client that is slower than the upstream; undefined: nothing is waited for. */
  private endWait: (() => void) | undefined;
  /** Runs while a stream is read on for its usage alone. */
  private briefly: NodeJS.Timeout | undefined;
  private over = false;
  /** The upstream's last two frames, or one, of the last read that completed any. */
  private lastFrames: readonly Frame[] = [];
  /** The last frame that went to the client. */
  private lastWritten: Frame | undefined;
  /** The upstream's first frame that reports an error, where frames pass untranslated. */
  private firstError: Frame | undefined;
  /** Bytes that may still be read after a client has left at the end; undefined: no limit. */
  private bytesLeft: number | undefined;

  constructor(
    private readonly exchange: Exchange,
    private readonly upstream: UpstreamAnswer,
    private readonly stages: readonly Stage[],
    private readonly writer: ResponseWriter,
    private readonly settle: { done(): void; fail(error: unknown): void },
  ) {
    const { translated, maxFrame } = upstream.head;
    const { framing } = translated ?? upstream.head;
    this.splitter = framing && splitterOf(framing, maxFrame);
    this.stageKeepsState = translated !== undefined;
    const { operation } = exchange;
    // A provider may send events where an array was asked for: an error among them is an event, too.
    const sent = framing === "sse" && operation.framing === "array" ? { ...operation, framing } : operation;
    this.state = translated?.state ?? { operation: sent, frames: 0, first: undefined, last: undefined };
    exchange.activeResponse = this;
    exchange.addAbortListener(this);
  }

  chunk(bytes: Buffer): boolean {
    const began = bytes.length < LARGE_CHUNK ? undefined : performance.now();
    try {
      const going = this.write(this.splitter ? this.split(bytes, this.splitter) : this.piece(bytes));
      if (this.hasReadEnough(bytes)) this.abort(new GatewayError("client_gone"));
      else if (!going || !tookLong(began)) return going;
      else this.resumeLater();
      return false;
    } catch (thrown) {
      // A stage's error already names its plugin; other errors come from the splitter, for a frame that is too large to be held.
      const { answerer } = this.exchange;
      this.abort(answerer ? toPluginError(thrown, answerer.origin) : GatewayError.from(thrown, "upstream_invalid"));
      return false;
    }
  }

  end(): void {
    const frames = this.takeRest();
    if (frames.length > 0) this.lastFrames = frames;
    this.finish(frames);
  }

  /**
   * Handles a broken upstream connection. After the terminal event the response is complete anyway, and after an error event, or
   * in an error that is whole, the client has its error.
   */
  fail(error: unknown): void {
    if (this.over) return;
    const { last } = this;
    const errors = this.takeRest().filter(isBareError(this.responseProtocol));
    if (errors.length > 0 || this.hasFailed || (last && this.upstream.terminal?.(last))) this.finish(errors);
    else if (this.hasFailedArray) this.finish(last?.text === undefined ? [] : [ARRAY_END]);
    else this.abort(error);
  }

  /** Returns what has come of the next frame. */
  private takeRest(): readonly Frame[] {
    const rest = this.splitter?.end();
    const kind = this.splitter instanceof ArraySplitter ? "element" : "event";
    // Its lines have not been read: it may have a comment.
    return rest ? this.redactFrames([new Frame(kind, rest, 0, kind === "event")]) : [];
  }

  /** The upstream's last frame. */
  private get last(): Frame | undefined {
    return this.lastFrames.at(-1);
  }

  /** Whether events have reported an error, in which the response ends. An array is complete with its error. */
  private get hasFailed(): boolean {
    return this.exchange.error !== undefined && this.upstream.head.framing === "sse";
  }

  /** Whether an element has reported an error, behind which only the array's end may follow. */
  private get hasFailedArray(): boolean {
    return this.exchange.error !== undefined && this.splitter instanceof ArraySplitter;
  }

  /** Whether the last event is the terminal one of a failed response, which is complete: SDKs return it. */
  private get endsWithFailedResponse(): boolean {
    const { last, responseProtocol: protocol } = this;
    return last !== undefined && protocol.ending(last) === "error" && protocol.terminal?.(last) === true;
  }

  /** The protocol of the frames that are read. */
  private get responseProtocol(): Protocol {
    return this.exchange.attempt?.protocol ?? this.exchange.protocol;
  }

  private finish(rest: readonly Frame[]): void {
    try {
      const before = rest.length > 0 ? this.passFrames(rest) : [];
      // A stage that has collected the response may return hundreds of thousands of frames: too many for arguments.
      const pieces = [...before, ...this.passEnd(before)];
      this.writer.setLength(this.exchange.written + totalLength(pieces));
      this.write(pieces);
      if (this.exchange.aborted) throw new GatewayError("client_gone");
      // Some clients ignore an error event, and take the text before it for the whole response if that ends regularly.
      if (this.hasFailed && !this.endsWithFailedResponse) this.breakOff();
      else this.writer.end();
    } catch (thrown) {
      this.abort(thrown);
      return;
    }
    this.close();
    this.settle.done();
  }

  /** @param last the frames before the end. If the end fails they are still written: translated, they complete what was sent */
  private passEnd(last: readonly Buffer[]): readonly Buffer[] {
    if (this.stages.length === 0) return [];
    try {
      return this.passFrames([END_FRAME]);
    } catch (thrown) {
      if (this.stageKeepsState) this.write(last);
      throw thrown;
    }
  }

  /** Cuts the connection after an error event, which is repeated where clients would miss it. */
  private breakOff(): void {
    const { exchange, writer, firstError, state, responseProtocol: protocol } = this;
    const { attempt } = exchange;
    const isMissed = protocol.repeatsErrors && firstError && !protocol.terminal?.(firstError);
    const error = isMissed && attempt && errorInFrame(firstError, attempt);
    const repeated = error && protocol.streamError(error, exchange.id, state);
    writer.deferEnd(() => {
      if (repeated) writer.write([repeated]);
      writer.abortAfterError();
    });
  }

  onAbort(): void {
    this.abort(new GatewayError("client_gone"));
  }

  private abort(error: unknown): void {
    if (this.over) return;
    this.close();
    this.upstream.destroy();
    this.settle.fail(error);
  }

  private close(): void {
    this.over = true;
    this.exchange.activeResponse = undefined;
    this.endWait?.();
    clearTimeout(this.briefly);
    this.exchange.removeAbortListener(this);
  }

  private piece(bytes: Buffer): readonly Buffer[] {
    return this.stages.length === 0 ? [bytes] : this.passFrames([new Frame("piece", bytes)]);
  }

  private split(chunk: Buffer, splitter: SseSplitter | ArraySplitter): readonly Buffer[] {
    const frames = this.redactFrames(splitter.push(chunk));
    const { bufferedBytes } = splitter;
    if (bufferedBytes !== this.bufferedBytes) this.upstream.head.reserve?.(bufferedBytes - this.bufferedBytes);
    this.bufferedBytes = bufferedBytes;
    if (frames.length === 0) return [];
    this.lastFrames = frames.length > 2 ? frames.slice(-2) : frames;
    if (!this.stageKeepsState) {
      this.state.first ??= frames[0] && inOwnMemory(frames[0].bytes);
      this.state.last = this.last;
      this.state.frames += frames.length;
    }
    const out = this.passFrames(frames);
    this.keepFirstError(frames);
    // Usually a chunk is one event, and the frame's bytes already are the chunk.
    if (frames.length === 1) return out;
    const untouched = out.length === frames.length && out.every((bytes, i) => bytes === frames[i]?.bytes);
    const whole = untouched && frames.reduce((sum, frame) => sum + frame.bytes.length, 0) === chunk.length;
    const first = frames[0]?.bytes;
    return whole && first?.buffer === chunk.buffer && first.byteOffset === chunk.byteOffset ? [chunk] : out;
  }

  /** Keeps the frame in which a plugin has found the provider's error. */
  private keepFirstError(frames: readonly Frame[]): void {
    if (this.firstError || this.stageKeepsState || !this.exchange.error) return;
    const { responseProtocol: protocol } = this;
    this.firstError = frames.find((frame) => protocol.ending(frame) === "error");
    if (this.firstError) this.upstream.noteError?.(this.firstError);
  }

  /** Removes secrets from errors and comments. */
  private redactFrames(frames: readonly Frame[]): readonly Frame[] {
    const { upstream } = this;
    if (!upstream.redact || !frames.some(mayHoldSecret)) return frames;
    return frames.map((frame) => upstream.redact?.(frame) ?? frame);
  }

  /** Passes frames through all stages; returns the resulting bytes. */
  private passFrames(frames: readonly Frame[]): Buffer[] {
    const out: Frame[] = [];
    try {
      for (const frame of frames) runStages(this.stages, frame, out);
    } catch (thrown) {
      // Frames before the failure are complete and useful.
      this.write(bytesOf(out));
      throw thrown;
    }
    const last = out.at(-1);
    if (last && last.kind !== "end") this.lastWritten = last;
    return bytesOf(out);
  }

  private write(pieces: readonly Buffer[]): boolean {
    if (pieces.length === 0) return true;
    const { exchange } = this;
    if (exchange.aborted) return true;
    exchange.firstByte ??= exchange.elapsed;
    for (const piece of pieces) exchange.written += piece.length;
    exchange.bodyWrites++;
    if (this.writer.write(pieces)) return true;
    this.pauseUpstream();
    return false;
  }

  push(bytes: Buffer): boolean {
    if (!this.upstream.head.framing) return false;
    this.write([bytes]);
    return true;
  }

  endIfDelivered(): boolean {
    const { exchange, lastWritten, writer } = this;
    if (!lastWritten || !writer.isFlushed || exchange.protocol.terminal?.(lastWritten) !== true) return false;
    this.finish([]);
    this.upstream.destroy();
    return true;
  }

  /** The client has left and a plugin wants the rest: the upstream is no longer paused. */
  drain(brief: boolean): boolean {
    if (brief && !this.lacksUsage) return false;
    this.endWait?.();
    if (brief) {
      this.bytesLeft = BRIEF_BYTES;
      this.briefly = setTimeout(() => this.abort(new GatewayError("client_gone")), BRIEF_TIME);
    }
    this.upstream.resume();
    return true;
  }

  /** Whether a stream has ended except for the usage that some providers send in a later frame. */
  private get lacksUsage(): boolean {
    const { last, exchange, upstream } = this;
    if (!last || exchange.usage?.out.total !== undefined || upstream.terminal?.(last)) return false;
    return this.responseProtocol.ending(last) === "complete";
  }

  /** Reports whether enough has been read for a client that has left. */
  private hasReadEnough(bytes: Buffer): boolean {
    if (this.bytesLeft === undefined) return false;
    this.bytesLeft -= bytes.length;
    return this.bytesLeft <= 0 || this.exchange.usage?.out.total !== undefined;
  }

  /** Resumes the upstream in another turn: the system may have much more of it, which would be read in this one. */
  private resumeLater(): void {
    setImmediate(() => {
      if (!this.over) this.upstream.resume();
    });
  }

  /** The client is slower than the upstream: pauses the upstream until the client has caught up, or gives up. */
  private pauseUpstream(): void {
    if (this.endWait || this.over) return;
    // It may take minutes: of what was read, only the frames that are inspected when the client leaves stay in memory.
    for (const frame of this.lastFrames) frame.detach();
    this.lastWritten?.detach();
    this.endWait = this.writer.awaitDrain(
      () => {
        this.endWait = undefined;
        this.upstream.resume();
      },
      () => this.abort(stalledClientError(this.writer.stalled)),
    );
  }
}
