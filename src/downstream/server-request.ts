import type { IncomingHttpHeaders } from "node:http";
import { IncomingMessage } from "../core/node-http.ts";
import { HeaderList } from "../wire/headers.ts";

/** Receives a request's body. */
export interface BodyConsumer {
  onChunk(piece: Buffer): void;
  /** Called when the body is complete. */
  onEnd(): void;
  /**
   * Set if in each turn of the event loop only a few chunks are read, of all such bodies together: node reads up to 2 MiB of each
   * connection before anything else runs.
   */
  readonly yieldsTurns?: true;
}

/** Bytes of a body that are buffered before reading stops. */
const MAX_BUFFERED = 64 * 1024;

/** What reads on in a later turn. */
const yielding: (() => void)[] = [];
/** How many are read in a turn, and the share where many wait: turns may be long, and clients are not waited for forever. */
const [CHUNKS_PER_TURN, SHARE_PER_TURN] = [4, 1 / 8];

function readSome(): void {
  const count = Math.max(CHUNKS_PER_TURN, Math.ceil(yielding.length * SHARE_PER_TURN));
  for (const read of yielding.splice(0, count)) read();
  if (yielding.length > 0) setImmediate(readSome);
}

/** Calls a function that reads on in a later turn of the event loop, after those that wait already. */
export function readLater(read: () => void): void {
  if (yielding.push(read) === 1) setImmediate(readSome);
}

/**
 * A request of node's server whose header lines are parsed once. node's own `headers` puts all lines into an object, for each
 * request, although few are used; here it holds only those that are read, or what it is set to.
 */
export class ServerRequest extends IncomingMessage {
  /** Number of chunks of the body received so far. */
  pieces = 0;
  private parsedHeaders: HeaderList | undefined;
  private usedHeaders: IncomingHttpHeaders | undefined;
  private consumer: BodyConsumer | undefined;
  /** Body chunks received before a reader is attached, and their size. */
  private bufferedChunks: (Buffer | null)[] | undefined;
  private bufferedBytes = 0;
  private readsLater = false;

  /** Buffers the body, without the cost of a stream, until a reader is attached. One that has arrived is in the stream. */
  hold(): void {
    if (!this.complete) this.bufferedChunks ??= [];
  }

  /**
   * Passes the body to a consumer chunk by chunk directly from node's parser, without the cost of a stream. Returns false if some of
   * it is already buffered in the stream, or read from there.
   */
  deliverTo(consumer: BodyConsumer): boolean {
    const { bufferedChunks } = this;
    const hasReader = this.readableFlowing === true && this.listenerCount("data") > 0;
    if ((this.complete && !bufferedChunks) || this.destroyed || this.readableLength > 0 || hasReader) return false;
    this.consumer = consumer;
    this.bufferedChunks = undefined;
    this.resume();
    if (bufferedChunks) for (const piece of bufferedChunks) this.deliver(piece);
    return true;
  }

  /** Passes the rest of the body to the stream. */
  detachConsumer(): void {
    this.consumer = undefined;
  }

  /** Called by the stream when it is read or resumed. */
  override _read(size: number): void {
    const { bufferedChunks } = this;
    this.bufferedChunks = undefined;
    if (bufferedChunks) for (const piece of bufferedChunks) super.push(piece);
    super._read(size);
  }

  /** Called by node's parser with a chunk, or null for the end. */
  override push(piece: Buffer | null): boolean {
    if (piece !== null) this.pieces++;
    const { bufferedChunks } = this;
    if (!bufferedChunks) return this.deliver(piece);
    bufferedChunks.push(piece);
    this.bufferedBytes += piece?.length ?? 0;
    return this.bufferedBytes < MAX_BUFFERED;
  }

  private deliver(piece: Buffer | null): boolean {
    const { consumer } = this;
    if (!consumer) return super.push(piece);
    if (piece !== null) {
      consumer.onChunk(piece);
      if (!consumer.yieldsTurns) return true;
      if (!this.readsLater) readLater(() => this.readOn());
      this.readsLater = true;
      return false;
    }
    const more = super.push(null);
    consumer.onEnd();
    return more;
  }

  private readOn(): void {
    this.readsLater = false;
    this._read(0);
  }

  /** All header lines. The list is shared: a removed line is removed for everyone. */
  get headerList(): HeaderList {
    this.parsedHeaders ??= new HeaderList(this.rawHeaders);
    return this.parsedHeaders;
  }

  static {
    Object.defineProperty(ServerRequest.prototype, "headers", {
      get(this: ServerRequest): IncomingHttpHeaders {
        this.usedHeaders ??= usedHeadersOf(this.headerList);
        return this.usedHeaders;
      },
      set(this: ServerRequest, headers: IncomingHttpHeaders) {
        this.usedHeaders = headers;
      },
    });
  }
}

/** Returns the headers that node's server or the gateway reads from `headers`. */
const usedHeadersOf = (lines: HeaderList): IncomingHttpHeaders => ({
  host: lines.get("host"),
  te: lines.get("te"),
  expect: lines.get("expect"),
  "content-type": lines.get("content-type"),
  "content-encoding": lines.get("content-encoding"),
  "content-length": lines.get("content-length"),
});
