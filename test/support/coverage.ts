import { Session } from "node:inspector";

/** Bytes of one function's source, by where it stands; 1: has run. */
type Ran = Map<string, Uint8Array>;

interface Taken {
  result: {
    url: string;
    functions: { ranges: { startOffset: number; endOffset: number; count: number }[] }[];
  }[];
}

/**
 * Which parts of the gateway's own sources have run, as the engine counts them, block by block. Counts only in modules that
 * are imported after it was made.
 */
export class Coverage {
  private readonly session = new Session();
  private readonly ran: Ran = new Map();
  /** Characters of source that have run. */
  size = 0;

  constructor() {
    this.session.connect();
    this.post("Profiler.enable");
    this.post("Profiler.startPreciseCoverage", { callCount: true, detailed: true, allowTriggeredUpdates: false });
  }

  /**
   * How much has run since the last call that had not run before.
   * @param keep counts it as run from now on
   */
  fresh(keep: boolean): number {
    let fresh = 0;
    for (const { url, functions } of (this.post("Profiler.takePreciseCoverage") as Taken).result) {
      if (!/^file:.*\/(?:src|plugins)\/.*\.ts(?:\?|$)/.test(url) || /\/test\//.test(url)) continue;
      for (const { ranges } of functions) {
        const [whole] = ranges;
        if (!whole) continue;
        const key = `${url} ${whole.startOffset}`;
        const known = this.ran.get(key) ?? new Uint8Array(whole.endOffset - whole.startOffset);
        const now = new Uint8Array(known.length);
        // Inner ranges come behind those around them.
        for (const { startOffset, endOffset, count } of ranges)
          now.fill(count > 0 ? 1 : 0, startOffset - whole.startOffset, endOffset - whole.startOffset);
        for (let i = 0; i < now.length; i++) {
          if (now[i] === 0 || known[i] === 1) continue;
          fresh++;
          if (keep) known[i] = 1;
        }
        if (keep) this.ran.set(key, known);
      }
    }
    if (keep) this.size += fresh;
    return fresh;
  }

  /** Stops counting. */
  close(): void {
    this.post("Profiler.stopPreciseCoverage");
    this.session.disconnect();
  }

  /** On the same thread the answer is there before the call returns. */
  private post(method: string, given: object = {}): unknown {
    let answer: unknown;
    this.session.post(method, given, (error, result) => {
      if (error) throw new Error(`${method}: ${error.message}`);
      answer = result;
    });
    return answer;
  }
}
