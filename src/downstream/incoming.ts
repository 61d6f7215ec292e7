import { type IncomingHttpHeaders, IncomingMessage } from "node:http";
import { HeaderList } from "../wire/headers.ts";

/** Takes a request's body. */
export interface Taker {
  receive(piece: Buffer): void;
  /** The body is whole. */
  finish(): void;
}

/** Bytes of a body that are kept before no more of it is read. */
const MOST = 64 * 1024;

/**
 * A request as node's server hands it over, its header lines read once. node's own `headers` takes all lines apart into an
 * object, for each request, to look at two of them; here it holds only those that anybody looks at, or what it is set to.
 */
export class Incoming extends IncomingMessage {
  /** Pieces in which the body has come so far. */
  pieces = 0;
  private list: HeaderList | undefined;
  private few: IncomingHttpHeaders | undefined;
  private taker: Taker | undefined;
  /** What has come of the body while nobody has said what becomes of it, and how many bytes that is. */
  private early: (Buffer | null)[] | undefined;
  private earlyBytes = 0;

  /** Keeps what comes of the body, without what a stream costs, until somebody wants it. */
  hold(): void {
    this.early ??= [];
  }

  /**
   * Hands the body over piece by piece as node's parser finds it, without the turns that a stream takes with each. False
   * when some of it has come already, and waits in the stream.
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

  /** What still comes goes its usual way. */
  letGo(): void {
    this.taker = undefined;
  }

  /** Called by the stream when somebody reads from it, or lets it flow. */
  override _read(size: number): void {
    const { early } = this;
    this.early = undefined;
    if (early) for (const piece of early) super.push(piece);
    super._read(size);
  }

  /** Called by node's parser: a piece, or null for the end. */
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

  /** Every line. The list is shared: what is taken out of it is gone for all. */
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

/** The headers that node's server or somebody of ours looks at. */
const fewOf = (lines: HeaderList): IncomingHttpHeaders => ({
  host: lines.get("host"),
  te: lines.get("te"),
  expect: lines.get("expect"),
  "content-type": lines.get("content-type"),
  "content-encoding": lines.get("content-encoding"),
  "content-length": lines.get("content-length"),
});
