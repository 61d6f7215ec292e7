import { Session } from "node:inspector";

/** Bytes per character of a function's source, by its position; 1: has run. */
type Ran = Map<string, Uint8Array>;

interface Taken {
  result: {
    url: string;
    functions: { ranges: { startOffset: number; endOffset: number; count: number }[] }[];
  }[];
}

/**
 * Measures which parts of the gateway's own sources have run, with V8's block coverage. Only modules imported after its
 * creation are counted.
 */
export class Coverage {
  private readonly session = new Session();
  private readonly ran: Ran = new Map();
  /** Number of characters of source that have run. */
  size = 0;

  constructor() {
    this.session.connect();
    this.post("Profiler.enable");
    this.post("Profiler.startPreciseCoverage", { callCount: true, detailed: true, allowTriggeredUpdates: false });
  }

  /**
   * Returns how many characters have run since the last call that had not run before.
   * @param keep whether to count them as run from now on
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
        // Inner ranges follow the ranges that contain them.
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

  /** Stops measuring. */
  close(): void {
    this.post("Profiler.stopPreciseCoverage");
    this.session.disconnect();
  }

  /** Calls the inspector, which responds synchronously on the same thread. */
  private post(method: string, given: object = {}): unknown {
    let answer: unknown;
    this.session.post(method, given, (error, result) => {
      if (error) throw new Error(`${method}: ${error.message}`);
      answer = result;
    });
    return answer;
  }
}
