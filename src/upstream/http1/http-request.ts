import type { Readable } from "node:stream";
import type { ResponseHead } from "./response-head.ts";

/** A request to write on a connection, and what hears how it goes. */
export interface HttpRequest {
  readonly method: string;
  /** Path and query, written exactly as they are. */
  readonly path: string;
  /** Header fields: a flat name, value list. Framing, hop-by-hop fields, `host` and `accept-encoding` in it are ignored. */
  readonly fields: readonly string[];
  /** Pieces are sent as they lie. */
  readonly body: readonly Buffer[] | Readable | undefined;
  /** Bytes of a streamed body, if known; undefined: chunked. */
  readonly length: number | undefined;

  /** A connection is being made for it. */
  onConnecting?(): void;
  /**
   * A connection takes it now.
   * @returns false when nobody wants it any more: nothing is sent then, and it hears no more.
   */
  onStart(controller: RequestController): boolean;
  /** Some of the body has been taken by the system, or all of it. */
  onBodySent(): void;
  /** The head of the final response. What it throws closes the connection and comes back as `onError`. */
  onHead(head: ResponseHead): void;
  onData(bytes: Buffer): void;
  /** The response is whole. Nothing follows. */
  onEnd(): void;
  /**
   * Nothing follows.
   * @param stale a kept connection was closed without a byte of an answer: by who had closed it already, or by who had begun to
   * work on the request
   */
  onError(error: Error, stale?: boolean): void;
}

/** What a request can ask of the connection that carries it. */
export interface RequestController {
  readonly paused: boolean;
  /** Reads no more, so that the provider has to wait. */
  pause(): void;
  resume(): void;
  /** Closes the connection; the request hears no more. */
  abort(): void;
}
