import type { Frame } from "../wire/frame.ts";
import type { HeaderList } from "../wire/headers.ts";
import type { StreamState } from "./protocol.ts";

/** Reports whether a status can be that of a final response. Vendors may send statuses that no RFC defines. */
export const isFinalStatus = (status: number): boolean => Number.isInteger(status) && status >= 200 && status <= 999;

/** The head of the upstream's response; stages and plugins of the response phase may change it. */
export interface Head {
  status: number;
  headers: HeaderList;
  /** How the body is framed if it is a stream of frames; undefined: chunks without framing. */
  framing?: "sse" | "array" | undefined;
  /** Set by the engine: maximum bytes of one of its frames; default 16 MiB. */
  maxFrame?: number | undefined;
  /**
   * Reads the whole response before the head is sent downstream; stages then see the same bytes.
   * @throws GatewayError when the response breaks off, or is larger than `limit` bytes
   */
  readBody?(limit: number): Promise<Buffer>;
  /**
   * Set by the engine: counts more bytes, or fewer, that are buffered of the response, until it has ended.
   * @throws GatewayError `overloaded` where there is no room for them
   */
  reserve?(bytes: number): void;
  /** True while a call of `readBody` is pending, or a large body is translated: that is not the plugin's time. */
  isReading?: boolean;
  /** Set by the engine: a stage may change the length of the body, so that the `content-length` in `headers` may not be sent. */
  lengthIsOpen?: boolean;
  /** Set by the engine: plugin and phase, like `own.response`, of a stage that has lost the event with which the stream ends. */
  endingLostBy?: string | undefined;
  /** Set when `readBody` has failed: returns the frames that arrived before, without an incomplete one. */
  received?: (() => readonly Frame[]) | undefined;
  /** Set by the stage that translates the response: `framing` is then the client's, and the upstream's is in here. */
  translated?: TranslatedHead;
}

/**
 * A provider's response to an attempt that is not passed to the client: another attempt follows, or the gateway reports the error
 * in its own words. Its body is read only if `readBody` is called.
 */
export interface FailedAnswer {
  /** Status and headers, without the gateway's own secrets. */
  readonly head: Head;
  /**
   * Reads the body in the background, for at most one second and up to `limit` bytes; of several calls the largest limit applies.
   * Settles when reading has stopped. The phase should not await it, since the next attempt waits for the phase. The cut may fall
   * inside a secret and leave its beginning: request more bytes than are shown.
   */
  readBody(limit: number): Promise<void>;
  /** The part of the body received so far, without the gateway's own secrets; of a stream, its first event. */
  readonly body: Buffer;
  /** Number of body bytes received. */
  readonly bytes: number;
  /** Whether `body` is complete. */
  readonly isComplete: boolean;
}

/** What the engine must know about a response that a stage translates. */
interface TranslatedHead {
  /** How the upstream frames its body. */
  framing: Head["framing"];
  /** The state of the client's stream so far, kept by that stage. */
  state: StreamState;
}
