import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";

/** Below this many bytes a copy into one buffer is cheaper than a vectored write. */
const COPY_BELOW = 16 * 1024;
const CRLF = Buffer.from("\r\n");

/**
 * The client's end of an answer. Streamed answers are framed here and written straight to the socket, one write for each
 * chunk, which costs half of what node's own chunked writing does.
 */
export class Outlet {
  private direct = false;
  private streaming = false;
  /** The piece of a whole answer that leaves with its end, or when another follows: one write for a small answer. */
  private held: Buffer | undefined;

  constructor(readonly response: ServerResponse) {}

  /** @param lines name, value, name, value, … @param streaming send the head at once. */
  head(status: number, lines: string[], streaming: boolean): void {
    this.response.writeHead(status, lines);
    this.streaming = streaming;
    if (!streaming) return;
    this.response.flushHeaders();
    // Without a socket (an answer queued behind a pipelined one) node keeps what is written until its turn comes.
    this.direct = this.response.socket !== null && this.response.chunkedEncoding;
  }

  /** Writes some buffers as one piece. False: wait for `drained` before the next. */
  write(pieces: readonly Buffer[]): boolean {
    const length = pieces.reduce((sum, piece) => sum + piece.length, 0);
    if (length === 0) return true;
    const { socket } = this.response;
    if (!this.direct || !socket) return this.queue(pieces);
    if (socket.destroyed) return false;
    const size = length.toString(16);
    if (length < COPY_BELOW) return socket.write(joined(size, pieces, length));
    socket.cork();
    socket.write(`${size}\r\n`, "latin1");
    for (const piece of pieces) socket.write(piece);
    const more = socket.write(CRLF);
    socket.uncork();
    return more;
  }

  /** Runs `go` when more can be written. */
  drained(go: () => void): void {
    (this.direct && this.response.socket ? this.response.socket : this.response).once("drain", go);
  }

  end(): void {
    this.response.end(this.held);
  }

  /** Sends what was written, then closes the connection without ending the answer: the client sees that it is not whole. */
  cut(): void {
    const { socket } = this.response;
    if (this.held) this.response.write(this.held);
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
      const ready = this.streaming ? piece : this.held;
      if (!this.streaming) this.held = piece;
      if (ready) more = this.response.write(ready);
    }
    return more;
  }
}

/** One HTTP chunk in one buffer. */
function joined(size: string, pieces: readonly Buffer[], length: number): Buffer {
  const chunk = Buffer.allocUnsafe(size.length + length + 4);
  let at = chunk.write(size, 0, "latin1");
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
