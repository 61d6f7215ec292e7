const NEVER_NOTIFIED = new Int32Array(new SharedArrayBuffer(4));

/** Blocks this thread: only for files of other processes that start at the same moment, before anything is served. */
export function sleepSync(milliseconds: number): void {
  Atomics.wait(NEVER_NOTIFIED, 0, 0, milliseconds);
}
