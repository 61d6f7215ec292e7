import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { type BodyRateListener, BodyRateMonitor } from "../core/body-rate.ts";
import { type BodyConsumer, readLater, ServerRequest } from "./server-request.ts";

/**
 * How much of an unread request body is read and discarded, in bytes and milliseconds: a connection that is closed while its
 * client still sends is reset, and the error response is lost (RFC 9112 §9.6).
 */
const LIMITS = { bytes: 64 * 1024 * 1024, time: 30_000, idle: 5000 };

/** Maximum chunks that are parsed, and the average size from which on parsing continues beyond. */
const CHUNKS = { max: 1000, size: 4096 };

/** Sends a response at once, and ends it, which may close the connection, when the client has sent its whole request. */
export function linger(request: IncomingMessage, response: ServerResponse, body: Buffer): void {
  // Without a body node would send the head only with the end.
  if (request.method === "HEAD") response.flushHeaders();
  response.write(body);
  new LingeringClose(request, () => response.end());
}

/**
 * Discards the rest of a request whose response has ended before it: many clients read nothing before they have sent everything.
 */
export function discardRest(request: IncomingMessage): void {
  // Node drops what nobody has begun to read, but uncounted.
  (request as { _dumped?: boolean })._dumped = false;
  // Node has let go of the request, too: it would outlive its connection.
  const { socket } = request;
  const onSocketClose = () => request.destroy();
  socket.once("close", onSocketClose);
  new LingeringClose(request, () => socket.off("close", onSocketClose));
}

/**
 * Sends a FIN alone behind a response that ends its connection before the end of the request, and closes that when the request has
 * ended. Called before node sees the end of the response: it would close the connection at once.
 */
export function halfCloseEarly(request: IncomingMessage, response: ServerResponse & { _last?: boolean }): void {
  if (!response._last || request.complete || request.destroyed) return;
  response._last = false;
  const { socket } = request;
  socket.end();
  request.once("close", () => socket.destroySoon());
}

/** Discards the rest of a request that was refused, or answered early. */
class LingeringClose implements BodyConsumer, BodyRateListener {
  /** Anyone can be refused, on many connections, and other requests should not wait for bytes that nobody reads. */
  readonly yieldsTurns = true;
  private readonly pace = new BodyRateMonitor(LIMITS, this);
  private readonly limit = setTimeout(() => this.onTooSlow(), LIMITS.time);
  private readonly chunked: boolean;
  private received = 0;
  private pieces = 0;
  private detached = false;

  /** @param onClosed called when no more comes */
  constructor(
    private readonly request: IncomingMessage,
    onClosed: () => void = () => {},
  ) {
    this.chunked = request instanceof ServerRequest && request.headerList.has("transfer-encoding");
    request.on("error", () => {});
    request.once("close", () => {
      this.onEnd();
      onClosed();
    });
    if (!(request instanceof ServerRequest && request.deliverTo(this))) {
      request.on("data", (piece: Buffer) => this.onChunk(piece));
      request.resume();
    }
  }

  onChunk(piece: Buffer): void {
    if (this.detached) return;
    this.pieces++;
    this.count(piece.length);
    if (this.chunked && this.pieces > CHUNKS.max && this.received < this.pieces * CHUNKS.size) this.halfClose();
  }

  onEnd(): void {
    clearTimeout(this.limit);
    this.pace.stop();
  }

  onTooSlow(): void {
    this.request.destroy();
  }

  private count(bytes: number): void {
    this.received += bytes;
    if (this.received > LIMITS.bytes) this.onTooSlow();
    else this.pace.addBytes(bytes);
  }

  /**
   * Parsing small chunks costs many times as much as reading them: sends a FIN to the client, and discards the raw bytes that it
   * still sends until it has seen that.
   */
  private halfClose(): void {
    this.detached = true;
    const { socket } = this.request;
    // Deferred, as node's parser is still processing these bytes.
    setImmediate(() => {
      if (socket.destroyed || this.request.complete) {
        this.detached = false;
        return;
      }
      detachParser(socket, (bytes) => this.count(bytes));
      socket.end();
    });
  }
}

/** Detaches a connection from node's parser permanently; further bytes are only counted, a few in each turn of the event loop. */
function detachParser(socket: Socket, onBytes: (count: number) => void): void {
  // node's parser stops reading the handle directly once another `data` listener is added.
  const count = (piece: Buffer): void => {
    onBytes(piece.length);
    socket.pause();
    readLater(() => socket.resume());
  };
  socket.on("data", count);
  for (const event of ["data", "end"] as const)
    for (const listener of socket.listeners(event)) if (listener !== count) socket.off(event, listener as () => void);
  socket.once("end", () => socket.destroy());
  socket.resume();
  // The parser may have stopped the handle, of which the stream knows nothing.
  socket._read(0);
}
