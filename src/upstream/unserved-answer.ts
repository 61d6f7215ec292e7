import { framesOf } from "../core/answer-frames.ts";
import type { FailedAnswer, Head } from "../core/exchange.ts";
import type { Redactor } from "../core/redactor.ts";
import type { UpstreamResponse } from "./response.ts";

/** Milliseconds for which a body is read whose answer nobody waits for. */
const LONGEST = 1000;

/** An answer of which the client gets nothing, for plugins that look at it. */
export class UnservedAnswer implements FailedAnswer {
  private readonly pieces: Buffer[] = [];
  private limit = 0;
  private over = false;
  private complete = false;
  private timer: NodeJS.Timeout | undefined;
  private readonly read = Promise.withResolvers<void>();
  bytes = 0;

  constructor(
    private readonly upstream: Pick<UpstreamResponse, "read" | "destroy">,
    readonly head: Head,
    private readonly redactor: Redactor,
  ) {}

  keep(limit: number): Promise<void> {
    const begins = this.limit === 0 && limit > 0 && !this.over;
    this.limit = Math.max(this.limit, limit);
    if (begins) this.begin();
    return this.read.promise;
  }

  private begin(): void {
    this.timer = setTimeout(() => this.end(), LONGEST).unref();
    this.upstream.read({
      chunk: (bytes) => {
        this.bytes += bytes.length;
        // The bytes may be a part of a larger buffer, which would be kept as long.
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
    const clean = this.redactor.bytes(this.kept);
    // What is cut off at the limit may end so too: whoever keeps it has asked for more, and leaves the end out.
    return this.complete || this.head.framing || this.bytes > this.limit ? clean : withoutLastWord(clean);
  }

  get whole(): boolean {
    return this.complete && this.kept.length === this.bytes;
  }

  private get kept(): Buffer {
    const bytes = Buffer.concat(this.pieces).subarray(0, this.limit);
    const { framing } = this.head;
    if (!framing) return bytes;
    // What a model says is in pieces, and a secret in it too: the first event is what tells of the error.
    const frames = framesOf(bytes, framing);
    const first = frames.findIndex(({ text }) => text !== undefined);
    return Buffer.concat(frames.slice(0, first + 1).map((frame) => frame.bytes));
  }

  /** All who wanted it have said so: where nobody did, its connection is given up. */
  leave(): void {
    if (this.limit === 0) this.end();
  }

  private end(): void {
    if (this.over) return;
    this.over = true;
    clearTimeout(this.timer);
    this.upstream.destroy();
    this.read.resolve();
  }
}

/** What did not come whole may end with the beginning of a secret, which nobody knows for one. */
function withoutLastWord(bytes: Buffer): Buffer {
  let end = bytes.length;
  while (end > 0 && !WORD_ENDS.has(bytes[end - 1] as number)) end--;
  return bytes.subarray(0, end);
}

/** What stands around keys in JSON, HTML and plain words, and what has taken the place of a whole one. */
const WORD_ENDS: ReadonlySet<number> = new Set(Buffer.from(" \t\r\n\"'`<>()[]{},;*"));
