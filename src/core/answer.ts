/** A response in the client's protocol. */
export interface BodyAnswer {
  /** Default 200. */
  status?: number;
  /** Default `content-type`: JSON, or for a streamed body the type of the operation's streams. */
  headers?: Record<string, string>;
  /**
   * The whole body; or a stream of chunks with arbitrary boundaries, pulled as fast as the client reads. Whether it is a stream of
   * frames is said by its `content-type`.
   */
  body: string | Buffer | Iterable<Buffer> | AsyncIterable<Buffer>;
  text?: never;
}

/**
 * A text in place of a model's, in `request` or `route` of a conversation. The engine encodes it in the client's protocol, as a
 * stream if the client requests one.
 */
export interface TextAnswer {
  text: string;
  headers?: Record<string, string>;
  status?: never;
  body?: never;
}

/** A response that a plugin gives itself; no provider is requested then. */
export type Answer = BodyAnswer | TextAnswer;

/** The plugin that gave the response. */
export interface Answerer {
  readonly name: string;
  /** Its index in the chain. */
  readonly index: number;
  /** The origin named in errors of its response, like `cache.answer`. */
  readonly origin: string;
  /** Milliseconds allowed for each chunk of its response; 0: no limit. */
  readonly deadline: number;
}
