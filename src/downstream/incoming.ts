import { type IncomingHttpHeaders, IncomingMessage } from "node:http";
import { HeaderList } from "../wire/headers.ts";

/** Receives a request's body. */
export interface Taker {
  receive(piece: Buffer): void;
  /** Called when the body is complete. */
  finish(): void;
}

/** Bytes of a body that are buffered before reading stops. */
const MOST = 64 * 1024;

/**
 * A request of node's server whose header lines are parsed once. node's own `headers` puts all lines into an object, for each
 * request, although few are used; here it holds only those that are read, or what it is set to.
 */
export class Incoming extends IncomingMessage {
  /** Number of chunks of the body received so far. */
  pieces = 0;
  private list: HeaderList | undefined;
  private few: IncomingHttpHeaders | undefined;
  private taker: Taker | undefined;
  /** Body chunks received before a reader is attached, and their size. */
  private early: (Buffer | null)[] | undefined;
  private earlyBytes = 0;

  /** Buffers the body, without the cost of a stream, until a reader is attached. */
  hold(): void {
    this.early ??= [];
  }

  /**
   * Passes the body to a taker chunk by chunk directly from node's parser, without the cost of a stream. Returns false if some of
   * it is already buffered in the stream.
   */
  handTo(taker: Taker): boolean {
    const { early } = this;
    if ((this.complete && !early) || this.destroyed || this.readableLength > 0 || this.readableFlowing) return false;
    this.taker = taker;
    this.early = undefined;
    this.resume();
    if (early) for (const piece of early) this.hand(piece);
    return true;
  }

  /** Passes the rest of the body to the stream. */
  letGo(): void {
    this.taker = undefined;
  }

  /** Called by the stream when it is read or resumed. */
  override _read(size: number): void {
    const { early } = this;
    this.early = undefined;
    if (early) for (const piece of early) super.push(piece);
    super._read(size);
  }

  /** Called by node's parser with a chunk, or null for the end. */
  override push(piece: Buffer | null): boolean {
    if (piece !== null) this.pieces++;
    const { early } = this;
    if (!early) return this.hand(piece);
    early.push(piece);
    this.earlyBytes += piece?.length ?? 0;
    return this.earlyBytes < MOST;
  }

  private hand(piece: Buffer | null): boolean {
    const { taker } = this;
    if (!taker) return super.push(piece);
    if (piece !== null) {
      taker.receive(piece);
      return true;
    }
    const more = super.push(null);
    taker.finish();
    return more;
  }

  /** All header lines. The list is shared: a removed line is removed for everyone. */
  get lines(): HeaderList {
    this.list ??= new HeaderList(this.rawHeaders);
    return this.list;
  }

  static {
    Object.defineProperty(Incoming.prototype, "headers", {
      get(this: Incoming): IncomingHttpHeaders {
        this.few ??= fewOf(this.lines);
        return this.few;
      },
      set(this: Incoming, headers: IncomingHttpHeaders) {
        this.few = headers;
      },
    });
  }
}

/** Returns the headers that node's server or the gateway reads from `headers`. */
const fewOf = (lines: HeaderList): IncomingHttpHeaders => ({
  host: lines.get("host"),
  te: lines.get("te"),
  expect: lines.get("expect"),
  "content-type": lines.get("content-type"),
  "content-encoding": lines.get("content-encoding"),
  "content-length": lines.get("content-length"),
});
