/** The rest of a form whose `model` part is in the body: buffered bytes before that part, and a stream of what follows it. */
export interface Form {
  /** False: the bytes after the body have not arrived yet and can be sent only once. */
  readonly replayable: boolean;
  /** `performance.now()` when bytes of it were last read from the client; 0: none were yet. */
  readonly lastReadAt: number;
  /** Short fields that limit the output, as far as they have arrived. */
  readonly fields: ReadonlyMap<string, string>;
  /** Number of its files, as far as they have begun to arrive. */
  readonly files: number;
  /** Returns the whole form with `body` in its place; an error while streaming ends the request. */
  withBody(body: readonly Buffer[]): readonly Buffer[] | AsyncIterable<Buffer>;
  /** Returns the length of the whole form with a body of this many bytes; undefined: the client sent no length. */
  lengthWithBody(body: number): number | undefined;
  /** Frees the buffered bytes. */
  close(): void;
}
