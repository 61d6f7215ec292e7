import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { nextTick } from "node:process";
import { resetConnection } from "../upstream/pass.ts";
import { totalLength } from "../wire/pieces.ts";

/** Milliseconds for which a client may usually read nothing before it is disconnected. */
export const STALL_TIMEOUT = 60_000;
/**
 * Milliseconds between the last event of a stream that failed and the end of its connection: some clients discard what they have
 * not read yet of a response that turns out to be incomplete, and the event with its error is lost.
 */
const CUT_DELAY = 200;
/** Below this many bytes a copy into one buffer is cheaper than a vectored write. */
const COPY_BELOW = 16 * 1024;
const CRLF = Buffer.from("\r\n");

/**
 * The client side of a response. Streamed responses are framed here and written directly to the socket: one chunk for everything
 * that one read from the provider returned, which costs half of node's own chunked encoding.
 */
export class ResponseWriter {
  private direct = false;
  private streaming = false;
  /** The head of a whole response, sent with the first byte after it: until then another response can replace it. */
  private pendingHead: { status: number; lines: string[]; lengthIsOpen: boolean } | undefined;
  /** The first piece of a whole response, sent with its end, or when another follows: a single write for a small response. */
  private firstPiece: Buffer | undefined;
  /** The socket of which the head of a stream waits for the first chunk: one write for both. */
  private corked: Socket | undefined;
  /** The lines of the head, once sent. */
  private sentLines: readonly string[] = [];
  /** Number of chunks of a stream that have been written after the last one of which the system has all bytes. */
  private unflushed = 0;

  /**
   * @param beforeEnd called before the last bytes are sent
   * @param faults told what a write to the connection has thrown; the client's connection is closed
   * @param stalled milliseconds for which the client may read nothing before it is disconnected
   */
  constructor(
    readonly response: ServerResponse,
    private readonly beforeEnd: () => void = () => {},
    private readonly faults?: { onFault(thrown: unknown): void },
    readonly stalled = STALL_TIMEOUT,
  ) {}

  /**
   * Sets the head.
   * @param lines name, value, name, value, …
   * @param streaming sends the head at the end of this tick, together with what has been written by then
   * @param lengthIsOpen the body of a whole response may have another length than the one in `lines`
   */
  head(status: number, lines: string[], streaming: boolean, lengthIsOpen = false): void {
    this.streaming = streaming;
    if (!streaming) {
      this.pendingHead = { status, lines, lengthIsOpen };
      return;
    }
    this.sentLines = lines;
    const { response } = this;
    response.writeHead(status, lines);
    // Without a socket (a response queued after a pipelined one) node buffers everything until its turn.
    this.direct = response.socket !== null && response.chunkedEncoding;
    if (this.direct) {
      this.corked = response.socket as Socket;
      this.corked.cork();
      nextTick(flushHead, this);
    }
    response.flushHeaders();
  }

  /**
   * Writes some buffers, of a stream as one chunk. Returns false if the caller must wait with `awaitDrain` before the next write.
   */
  write(pieces: readonly Buffer[]): boolean {
    const { socket } = this.response;
    if (!this.direct || !socket) return this.queue(pieces);
    if (socket.destroyed) return false;
    const length = totalLength(pieces);
    if (length === 0) return !socket.writableNeedDrain;
    try {
      writeChunk(socket, pieces, length);
    } catch (thrown) {
      this.fail(thrown);
      return false;
    }
    if (!this.corked) this.noteUnflushed(socket);
    return !socket.writableNeedDrain;
  }

  /** Sends the head of a stream, if it waits for the first chunk, and what was written after it. */
  flush(): void {
    const { corked } = this;
    if (!corked) return;
    this.corked = undefined;
    corked.uncork();
    if (!corked.destroyed) this.noteUnflushed(corked);
  }

  /** Whether the system has all bytes that were written of a stream. */
  get isFlushed(): boolean {
    return this.streaming && !this.corked && this.unflushed === 0;
  }

  /** Notes bytes that the system has not taken at once. */
  private noteUnflushed(socket: Socket): void {
    if (socket.writableLength > 0) socket.write("", this.awaitFlush());
  }

  /** Returns what is called when the system has taken what is written next. */
  private awaitFlush(): (error?: Error | null) => void {
    this.unflushed++;
    return (error) => {
      if (!error) this.unflushed--;
    };
  }

  /**
   * Runs `onDrain` when more can be written, or `onStalled` once the client has read nothing for `stalled` milliseconds.
   * @returns a function that ends the wait
   */
  awaitDrain(onDrain: () => void, onStalled: () => void): () => void {
    const { response } = this;
    const drained = this.direct && response.socket ? response.socket : response;
    const end = () => {
      drained.off("drain", drain);
      response.off("timeout", stall).setTimeout(0);
    };
    const drain = () => {
      end();
      onDrain();
    };
    const stall = () => {
      end();
      onStalled();
    };
    drained.on("drain", drain);
    // The socket's own timeout starts again while the system takes bytes of a write, and a single event may be many megabytes.
    response.on("timeout", stall).setTimeout(this.stalled);
    return end;
  }

  /**
   * Ends a complete response. It is sent after all current microtasks, including its own recording, together with those of other
   * requests: a write wakes the client's process, which costs more than everything else about it, and several writes at once cost
   * that only once.
   */
  end(): void {
    this.sendHead();
    scheduleEnd(this);
  }

  /**
   * Defers the last write of a response that ends differently, like that of a complete one.
   * @param write writes the last bytes
   */
  deferEnd(write: () => void): void {
    scheduleEnd({
      writeEnd: () => {
        this.beforeEnd();
        write();
      },
      fail: (thrown) => this.fail(thrown),
    });
  }

  /** Handles what a write has thrown: it concerns no other response, and must not end the process. */
  fail(thrown: unknown): void {
    this.faults?.onFault(thrown);
    this.destroy();
  }

  /**
   * Tells the number of bytes of the whole body, before its last piece is written. Where the head has not been sent, it is the
   * length that this announces.
   */
  setLength(length: number): void {
    const { pendingHead } = this;
    if (!pendingHead?.lengthIsOpen) return;
    pendingHead.lengthIsOpen = false;
    const at = lengthIndex(pendingHead.lines);
    if (at >= 0) pendingHead.lines[at + 1] = String(length);
  }

  private sendHead(): void {
    const { pendingHead } = this;
    if (!pendingHead) return;
    this.pendingHead = undefined;
    const { status, lines, lengthIsOpen } = pendingHead;
    // Without a length node uses chunked encoding.
    const at = lengthIsOpen ? lengthIndex(lines) : -1;
    const sent = at < 0 ? lines : lines.toSpliced(at, 2);
    this.sentLines = sent;
    this.response.writeHead(status, sent);
  }

  writeEnd(): void {
    this.beforeEnd();
    this.flush();
    const { response, firstPiece } = this;
    const { socket } = response;
    const hasUnsent = socket !== null && socket.writableLength > 0;
    if (!hasUnsent && (!firstPiece || firstPiece.length < COPY_BELOW)) {
      // node concatenates a string with the head, where it would write a buffer as a second vector.
      if (firstPiece) response.end(firstPiece.toString("latin1"), "latin1");
      else response.end();
      return;
    }
    // Once a response has ended, node takes its connection for idle, and closes it when the server stops, even with unsent bytes.
    const end = () => {
      // A later response may be queued on this connection, and may take longer.
      response.setTimeout(0);
      response.end();
    };
    response.setTimeout(this.stalled, () => this.destroy());
    if (firstPiece) response.write(firstPiece, end);
    else socket?.write("", end);
  }

  /** Sends what was written, then closes the connection without ending the response: the client sees that it is incomplete. */
  abort(): void {
    // Node buffers the writes of one tick, and would lose them.
    this.flushThen((socket) => nextTick(() => this.cut(socket)));
  }

  /** Does the same after an event with an error, which the client has time to read first. */
  abortAfterError(): void {
    this.flushThen((socket) => {
      const timer = setTimeout(() => this.cut(socket), CUT_DELAY);
      socket.once("close", () => clearTimeout(timer));
    });
  }

  private flushThen(close: (socket: Socket) => void): void {
    this.flush();
    const { response } = this;
    if (this.firstPiece) response.write(this.firstPiece);
    // A client that does not read the rest is not waited for.
    response.setTimeout(this.stalled, () => this.destroy());
    if (response.socket) close(response.socket);
    // Queued after a pipelined response: the socket is assigned at its turn, and buffered writes are sent immediately after that.
    else response.once("socket", close);
  }

  private cut(socket: Socket): void {
    if (this.isDelimited) socket.destroySoon();
    else socket.write("", () => resetConnection(socket));
  }

  /** Closes the connection of a response at its turn, without waiting for unsent bytes. */
  private destroy(): void {
    const { response } = this;
    if (this.isDelimited || !response.socket) response.destroy();
    else resetConnection(response.socket);
  }

  /**
   * Whether what was sent tells where the response ends. Otherwise the end of the connection does (HTTP/1.0), and an orderly one in
   * the middle would look like it.
   */
  private get isDelimited(): boolean {
    const { response, sentLines } = this;
    return !response.headersSent || response.chunkedEncoding || lengthIndex(sentLines) >= 0;
  }

  /** Closes the connection without waiting for unsent bytes; if queued after an earlier response, when that has ended. */
  drop(): void {
    if (this.response.socket) this.destroy();
    else this.abort();
  }

  private queue(pieces: readonly Buffer[]): boolean {
    let more = true;
    for (const piece of pieces) {
      const ready = this.streaming ? piece : this.firstPiece;
      if (!this.streaming) this.firstPiece = piece;
      if (!ready) continue;
      this.sendHead();
      more = this.streaming ? this.response.write(ready, this.awaitFlush()) : this.response.write(ready);
    }
    return more;
  }
}

/** Returns the index of the name `content-length` in header lines, or -1. */
const lengthIndex = (lines: readonly string[]): number =>
  lines.findIndex((line, i) => i % 2 === 0 && line.toLowerCase() === "content-length");

const flushHead = (writer: ResponseWriter): void => writer.flush();

/** Responses of which only the last part has not been sent. */
let endQueue: DeferredEnd[] = [];

type DeferredEnd = Pick<ResponseWriter, "writeEnd" | "fail">;

function scheduleEnd(one: DeferredEnd): void {
  if (endQueue.length === 0) queueMicrotask(writeEndsSoon);
  endQueue.push(one);
}

// Runs after all promises that are settled by now, including those of exchanges that wait for recording.
const writeEndsSoon = (): void => nextTick(writeEnds);

function writeEnds(): void {
  const ends = endQueue;
  endQueue = [];
  for (const end of ends) {
    try {
      end.writeEnd();
    } catch (thrown) {
      end.fail(thrown);
    }
  }
}

/** Writes pieces as one HTTP chunk. */
function writeChunk(socket: Socket, pieces: readonly Buffer[], length: number): void {
  if (length < COPY_BELOW) {
    socket.write(encodeChunk(pieces, length));
    return;
  }
  socket.cork();
  socket.write(`${length.toString(16)}\r\n`, "latin1");
  for (const piece of pieces) socket.write(piece);
  socket.write(CRLF);
  socket.uncork();
}

const DIGITS = Buffer.from("0123456789abcdef");

/** Returns one HTTP chunk in one buffer. */
function encodeChunk(pieces: readonly Buffer[], length: number): Buffer {
  const digits = length < 0x10 ? 1 : length < 0x100 ? 2 : length < 0x1000 ? 3 : 4;
  const chunk = Buffer.allocUnsafe(digits + length + 4);
  for (let i = digits - 1, rest = length; i >= 0; i--, rest >>= 4) chunk[i] = DIGITS[rest & 15] as number;
  let at = digits;
  chunk[at++] = 13;
  chunk[at++] = 10;
  for (const piece of pieces) {
    chunk.set(piece, at);
    at += piece.length;
  }
  chunk[at++] = 13;
  chunk[at] = 10;
  return chunk;
}
