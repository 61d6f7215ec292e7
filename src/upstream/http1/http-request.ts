import type { Readable } from "node:stream";
import type { ResponseHead } from "./response-head.ts";

/** A request to write on a connection, and the receiver of its events. */
export interface HttpRequest {
  readonly method: string;
  /** Path and query, written unchanged. */
  readonly path: string;
  /** Header fields: a flat name, value list. Framing, hop-by-hop fields, `host` and `accept-encoding` in it are ignored. */
  readonly fields: readonly string[];
  /** Pieces are sent unchanged. */
  readonly body: readonly Buffer[] | Readable | undefined;
  /** Bytes of a streamed body, if known; undefined: chunked. */
  readonly length: number | undefined;

  /** Called when a connection is being opened for the request. */
  onConnecting?(): void;
  /**
   * Called when a connection takes the request.
   * @returns false when the request has been cancelled: nothing is sent then, and no call follows.
   */
  onStart(controller: RequestController): boolean;
  /** Called when the system has taken some of the body, or all of it. */
  onBodySent(): void;
  /** Called with the head of the final response. An error thrown here closes the connection and is reported to `onError`. */
  onHead(head: ResponseHead): void;
  onData(bytes: Buffer): void;
  /** Called when the response is complete. No call follows. */
  onEnd(): void;
  /**
   * Called on an error. No call follows.
   * @param stale whether a kept-alive connection was closed before any byte of a response. The provider may have closed it before
   * the request arrived, or while it worked on the request.
   */
  onError(error: Error, stale?: boolean): void;
}

/** Controls the connection that carries a request. */
export interface RequestController {
  readonly paused: boolean;
  /** Stops reading, so that backpressure reaches the provider. */
  pause(): void;
  resume(): void;
  /** Closes the connection; the request gets no further call. */
  abort(): void;
}
