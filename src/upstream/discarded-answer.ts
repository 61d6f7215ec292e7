import { splitIntoFrames } from "../core/answer-frames.ts";
import type { FailedAnswer, Head } from "../core/head.ts";
import type { Redactor } from "../core/redactor.ts";
import type { UpstreamResponse } from "./response.ts";

/** Maximum milliseconds for which the body of a response is read that no client waits for. */
const MAX_READ_TIME = 1000;

/** A response that the client does not get, for plugins that inspect it. */
export class DiscardedAnswer implements FailedAnswer {
  private readonly pieces: Buffer[] = [];
  private limit = 0;
  private ended = false;
  private complete = false;
  private timer: NodeJS.Timeout | undefined;
  private readonly finished = Promise.withResolvers<void>();
  bytes = 0;

  constructor(
    private readonly upstream: Pick<UpstreamResponse, "read" | "destroy">,
    readonly head: Head,
    private readonly redactor: Redactor,
  ) {}

  readBody(limit: number): Promise<void> {
    // Nothing would settle it before all plugins have seen the response, and its caller is one of them.
    if (limit <= 0) return Promise.resolve();
    const isFirstReader = this.limit === 0 && !this.ended;
    this.limit = Math.max(this.limit, limit);
    if (isFirstReader) this.startReading();
    return this.finished.promise;
  }

  private startReading(): void {
    this.timer = setTimeout(() => this.end(), MAX_READ_TIME).unref();
    this.upstream.read({
      chunk: (bytes) => {
        this.bytes += bytes.length;
        // The bytes may be part of a larger buffer, which would be kept in memory as well.
        this.pieces.push(Buffer.from(bytes));
        if (this.bytes <= this.limit) return true;
        this.end();
        return false;
      },
      end: () => {
        this.complete = true;
        this.end();
      },
      fail: () => this.end(),
    });
  }

  get body(): Buffer {
    const redacted = this.redactor.bytes(this.keptBytes);
    // A body that was cut at the limit may end with half a secret too, but its reader has asked for more than it keeps, and drops
    // the end.
    return this.complete || this.head.framing || this.bytes > this.limit ? redacted : withoutLastWord(redacted);
  }

  get isComplete(): boolean {
    return this.complete && this.keptBytes.length === this.bytes;
  }

  private get keptBytes(): Buffer {
    const bytes = Buffer.concat(this.pieces).subarray(0, this.limit);
    const { framing } = this.head;
    if (!framing) return bytes;
    // A model's output, and a secret in it, is spread over several events: only the first event is kept, which reports the error.
    const frames = splitIntoFrames(bytes, framing);
    const first = frames.findIndex(({ text }) => text !== undefined);
    return Buffer.concat(frames.slice(0, first + 1).map((frame) => frame.bytes));
  }

  /** Called after all plugins have seen it: where none reads the body, the connection is closed. */
  closeUnread(): void {
    if (this.limit === 0) this.end();
  }

  private end(): void {
    if (this.ended) return;
    this.ended = true;
    clearTimeout(this.timer);
    this.upstream.destroy();
    this.finished.resolve();
  }
}

/** Drops the last word of a truncated body: it may be the beginning of a secret, which redaction does not recognise. */
function withoutLastWord(bytes: Buffer): Buffer {
  let end = bytes.length;
  while (end > 0 && !WORD_ENDS.has(bytes[end - 1] as number)) end--;
  return bytes.subarray(0, end);
}

/** Bytes around keys in JSON, HTML and plain text, and the `*` that replaces a redacted key. */
const WORD_ENDS: ReadonlySet<number> = new Set(Buffer.from(" \t\r\n\"'`<>()[]{},;*"));
