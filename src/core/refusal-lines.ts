import type { Log } from "./log.ts";

/** Lines a minute about what anybody may cause without a key: more would let them fill the disk. */
const LINES_PER_MINUTE = 1000;
const MINUTE = 60_000;

interface Lines {
  /** `performance.now()` of the first one of this minute. */
  since: number;
  count: number;
}

const linesByLog = new WeakMap<Log, Lines>();

/**
 * Reports whether a log gets another line about a request that was refused without a right key, or about a connection that was
 * closed. Of those in a minute that it does not get, one line has the number.
 */
export function takeRefusalLine(log: Log, now = performance.now()): boolean {
  let lines = linesByLog.get(log);
  if (!lines || now - lines.since >= MINUTE) {
    lines = { since: now, count: 0 };
    linesByLog.set(log, lines);
  }
  lines.count++;
  if (lines.count === LINES_PER_MINUTE + 1) setTimeout(logUnwritten, lines.since + MINUTE - now, log, lines).unref();
  return lines.count <= LINES_PER_MINUTE;
}

function logUnwritten(log: Log, { count }: Lines): void {
  log.warn({ count: count - LINES_PER_MINUTE }, "further refusals of the last minute have no lines of their own");
}
