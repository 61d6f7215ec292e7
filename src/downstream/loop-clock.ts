/** The time, and the load of this thread's event loop. */
export interface LoopClock {
  /** Returns milliseconds, as `performance.now()`. */
  now(): number;
  /** Returns the milliseconds of CPU time of this thread. */
  cpuTime(): number;
  /** Returns the utilization of the event loop since the last call. */
  utilization(): number;
  /**
   * Runs a function periodically.
   * @returns a function that stops it
   */
  every(milliseconds: number, run: () => void): () => void;
}

/** Returns the real clock. */
export function loopClock(): LoopClock {
  let used = performance.eventLoopUtilization();
  return {
    now: () => performance.now(),
    cpuTime() {
      const { user, system } = process.threadCpuUsage();
      return (user + system) / 1000;
    },
    utilization() {
      const before = used;
      used = performance.eventLoopUtilization();
      return performance.eventLoopUtilization(used, before).utilization;
    },
    every(milliseconds, run) {
      const timer = setInterval(run, milliseconds).unref();
      return () => clearInterval(timer);
    },
  };
}
