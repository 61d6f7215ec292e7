import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";

/** Milliseconds a client may take no byte before it is given up. */
export const STALLED = 60_000;
/** Below this many bytes a copy into one buffer is cheaper than a vectored write. */
const COPY_BELOW = 16 * 1024;
const CRLF = Buffer.from("\r\n");

/**
 * The client's end of an answer. Streamed answers are framed here and written straight to the socket: one chunk for all that
 * one read from the provider has brought, which costs half of what node's own chunked writing does.
 */
export class ResponseWriter {
  private direct = false;
  private streaming = false;
  /** The head of a whole answer, which leaves with the first byte behind it: until then another answer can be given. */
  private waitingHead: { status: number; lines: string[] } | undefined;
  /** The piece of a whole answer that leaves with its end, or when another follows: one write for a small answer. */
  private firstPiece: Buffer | undefined;
  /** Pieces of a stream that leave as one chunk when what brought them has been read to its end. */
  private readonly pending: Buffer[] = [];
  private pendingBytes = 0;

  /** @param ending called before the last bytes leave */
  constructor(
    readonly response: ServerResponse,
    private readonly ending: () => void = () => {},
  ) {}

  /** @param lines name, value, name, value, … @param streaming send the head at once. */
  head(status: number, lines: string[], streaming: boolean): void {
    this.streaming = streaming;
    if (!streaming) {
      this.waitingHead = { status, lines };
      return;
    }
    this.response.writeHead(status, lines);
    this.response.flushHeaders();
    // Without a socket (an answer queued behind a pipelined one) node keeps what is written until its turn comes.
    this.direct = this.response.socket !== null && this.response.chunkedEncoding;
  }

  /** Writes some buffers. False: wait for `drained` before the next. */
  write(pieces: readonly Buffer[]): boolean {
    const { socket } = this.response;
    if (!this.direct || !socket) return this.queue(pieces);
    if (socket.destroyed) return false;
    const { pending, pendingBytes } = this;
    for (const piece of pieces) {
      if (piece.length === 0) continue;
      pending.push(piece);
      this.pendingBytes += piece.length;
    }
    if (this.pendingBytes >= COPY_BELOW) this.flush();
    else if (pendingBytes === 0 && this.pendingBytes > 0) flushSoon(this);
    return !socket.writableNeedDrain;
  }

  /** Writes what waits of a stream, as one chunk. */
  flush(): void {
    const { pending, pendingBytes: length } = this;
    const { socket } = this.response;
    if (length === 0) return;
    this.pendingBytes = 0;
    const pieces = pending.splice(0);
    if (!socket || socket.destroyed) return;
    if (length < COPY_BELOW) {
      socket.write(joined(pieces, length));
      return;
    }
    socket.cork();
    socket.write(`${length.toString(16)}\r\n`, "latin1");
    for (const piece of pieces) socket.write(piece);
    socket.write(CRLF);
    socket.uncork();
  }

  /** Runs `go` when more can be written. */
  drained(go: () => void): void {
    (this.direct && this.response.socket ? this.response.socket : this.response).once("drain", go);
  }

  /**
   * The answer is whole. It leaves when all that is done at once has been done, its own recording too, together with those of other
   * requests: a write wakes the process that waits for it, which costs more than all else about it, and costs it once for
   * several answers.
   */
  end(): void {
    this.letHeadGo();
    depart(this);
  }

  /** What ends the answer in another way leaves as late as a whole one does. @param write writes the last of it */
  conclude(write: () => void): void {
    depart({
      depart: () => {
        this.ending();
        write();
      },
    });
  }

  private letHeadGo(): void {
    const { waitingHead } = this;
    if (!waitingHead) return;
    this.waitingHead = undefined;
    this.response.writeHead(waitingHead.status, waitingHead.lines);
  }

  depart(): void {
    this.ending();
    this.flush();
    const { response, firstPiece } = this;
    const { socket } = response;
    const waiting = socket !== null && socket.writableLength > 0;
    if (!waiting && (!firstPiece || firstPiece.length < COPY_BELOW)) {
      // node joins a text with the head in front of it, where it would write a buffer as a second vector.
      if (firstPiece) response.end(firstPiece.toString("latin1"), "latin1");
      else response.end();
      return;
    }
    // Once an answer has ended node takes its connection for idle, and closes it when the server stops, whatever waits in it.
    const end = () => {
      // Another answer may be queued on this connection, of which nothing may come for longer.
      response.setTimeout(0);
      response.end();
    };
    response.setTimeout(STALLED, () => response.destroy());
    if (firstPiece) response.write(firstPiece, end);
    else socket?.write("", end);
  }

  /** Sends what was written, then closes the connection without ending the answer: the client sees that it is not whole. */
  cut(): void {
    this.flush();
    const { socket } = this.response;
    if (this.firstPiece) this.response.write(this.firstPiece);
    // Node gathers what is written in one tick, and would lose it.
    const close = (socket: Socket) => process.nextTick(() => socket.destroySoon());
    if (socket) close(socket);
    // Queued behind a pipelined answer: the socket comes with its turn, and what was written leaves right after that.
    else this.response.once("socket", close);
  }

  /** Closes the connection without waiting for what was written; behind an earlier answer, when that has ended. */
  drop(): void {
    if (this.response.socket) this.response.destroy();
    else this.cut();
  }

  private queue(pieces: readonly Buffer[]): boolean {
    let more = true;
    for (const piece of pieces) {
      const ready = this.streaming ? piece : this.firstPiece;
      if (!this.streaming) this.firstPiece = piece;
      if (!ready) continue;
      this.letHeadGo();
      more = this.response.write(ready);
    }
    return more;
  }
}

/** Those of which something waits in `pending`. */
let waiting: ResponseWriter[] = [];

function flushSoon(writer: ResponseWriter): void {
  if (waiting.length === 0) process.nextTick(flushAll);
  waiting.push(writer);
}

function flushAll(): void {
  const writers = waiting;
  waiting = [];
  for (const writer of writers) writer.flush();
}

/** Those of whose answer only the last has not left. */
let ended: { depart(): void }[] = [];

function depart(one: { depart(): void }): void {
  if (ended.length === 0) queueMicrotask(departSoon);
  ended.push(one);
}

// Behind all promises that are settled by now, among them those for which exchanges wait to be recorded.
const departSoon = (): void => process.nextTick(departAll);

function departAll(): void {
  const writers = ended;
  ended = [];
  for (const writer of writers) writer.depart();
}

const DIGITS = Buffer.from("0123456789abcdef");

/** One HTTP chunk in one buffer. */
function joined(pieces: readonly Buffer[], length: number): Buffer {
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
