/** The parts of `ws` that are used here; the package has no types. */
declare module "ws" {
  import type { EventEmitter } from "node:events";
  import type { IncomingMessage, Server } from "node:http";
  import type { Writable } from "node:stream";

  /** Parses frames into messages: emits `message` (bytes, whether binary), `conclude` at a close frame, `error`. */
  export class Receiver extends Writable {
    constructor(options?: { isServer?: boolean; maxPayload?: number; skipUTF8Validation?: boolean });
  }

  /** Emits `open`, `message` (bytes, whether binary), `close` (code), `error`, `unexpected-response` (request, response). */
  export class WebSocket extends EventEmitter {
    /** Bytes that have not been given to the network yet. */
    readonly bufferedAmount: number;
    constructor(address: string, protocols?: string[], options?: { headers?: Record<string, string> });
    readonly protocol: string;
    readonly extensions: string;
    send(message: string | Buffer, options?: { fin?: boolean }): void;
    close(code?: number, reason?: string): void;
    terminate(): void;
  }

  /** Emits `connection` (socket, request). */
  export class WebSocketServer extends EventEmitter {
    constructor(options: { server: Server; perMessageDeflate?: boolean; maxPayload?: number });
    readonly clients: Set<WebSocket>;
    on(event: "connection", listener: (socket: WebSocket, request: IncomingMessage) => void): this;
  }
}
