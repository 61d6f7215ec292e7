import type { GatewayError } from "../core/errors.ts";

/** Takes the body of a response. */
export interface BodyReceiver {
  /** False: stop until `resume()`, which may not be called before this has returned. */
  chunk(bytes: Buffer): boolean;
  end(): void;
  /** upstream_truncated, upstream_timeout, upstream_invalid or client_gone. */
  fail(error: GatewayError): void;
}

/**
 * Looks at what has come of a body and waits to be read.
 * @param over nothing more will come
 * @param whole these pieces are all of it, and nothing has broken off
 * @returns true when it has seen enough
 */
export type ResponseLook = (pieces: readonly Buffer[], over: boolean, whole: boolean) => boolean;

/** A response whose head is in. Either read it or destroy it. */
export interface UpstreamResponse {
  readonly status: number;
  /** Raw, flat, latin1; without hop-by-hop fields. */
  readonly headers: string[];
  /**
   * Starts handing over the body; what arrived meanwhile comes first, in this very call. Exactly one of `end` and `fail`
   * follows, once, unless `destroy()` is called before: then nothing does.
   */
  read(receiver: BodyReceiver): void;
  resume(): void;
  /** Calls `look` now, and again when more has come, until it has seen enough or somebody reads. */
  peek(look: ResponseLook): void;
  /** Ends the attempt; its connection is closed unless the response was complete. Safe at any time, any number of times. */
  destroy(): void;
}
