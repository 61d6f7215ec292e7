import type { GatewayError } from "../core/errors.ts";
import type { HeaderList } from "../wire/headers.ts";

/** Receives the body of a response. */
export interface BodyReceiver {
  /** Returns false to stop until `resume()`, which may not be called before this has returned. */
  chunk(bytes: Buffer): boolean;
  end(): void;
  /** Called with upstream_truncated, upstream_timeout, upstream_invalid or client_gone. */
  fail(error: GatewayError): void;
}

/**
 * Inspects what has arrived of a body and has not been read.
 * @param ended nothing more will arrive
 * @param isComplete these pieces are the whole body, which was not truncated
 * @returns true when it needs no more
 */
export type BodyInspector = (pieces: readonly Buffer[], ended: boolean, isComplete: boolean) => boolean;

/** A response whose head has arrived. The caller must either read or destroy it. */
export interface UpstreamResponse {
  readonly status: number;
  /** Raw, latin1; without hop-by-hop fields. Not to be changed. */
  readonly headers: HeaderList;
  /**
   * Starts to deliver the body; what has arrived already is delivered first, synchronously. Exactly one of `end` and `fail`
   * follows, once, unless `destroy()` is called before: then neither does.
   */
  read(receiver: BodyReceiver): void;
  resume(): void;
  /** Before `read`: the whole body, if all of it has arrived and was not truncated. */
  readonly whole?: readonly Buffer[] | undefined;
  /** Calls `inspect` now and whenever more has arrived, until it returns true or `read` is called. */
  peek(inspect: BodyInspector): void;
  /**
   * Ends the attempt; its connection is closed unless the response was complete. May be called at any time, any number of times.
   */
  destroy(): void;
}
