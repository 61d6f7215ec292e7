/** The domains of tests that have begun and not ended, in that order. */
const live = new Set<Domain>();

/**
 * Replaces `async-hook-domain`, by which tap attributes an uncaught error to its test: the async hooks that follow each promise
 * take a fifth of the CPU of a test that makes many. Here the error goes to the test that began last.
 */
export class Domain {
  readonly onerror: (error: unknown, type: string) => void;
  destroyed = false;

  constructor(onerror: (error: unknown, type: string) => void) {
    this.onerror = onerror;
    live.add(this);
  }

  destroy(): void {
    this.destroyed = true;
    live.delete(this);
  }
}

process.on("uncaughtExceptionMonitor", (error, type) => {
  const last = [...live].at(-1);
  // A test's own handlers come first.
  if (!last || process.hasUncaughtExceptionCaptureCallback() || process.listenerCount("uncaughtException") > 0) return;
  last.onerror(error, type);
  // The error is handled: the process goes on.
  process.setUncaughtExceptionCaptureCallback(() => process.setUncaughtExceptionCaptureCallback(null));
});
