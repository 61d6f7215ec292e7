/** The time, and how this thread's event loop spends it. */
export interface LoopClock {
  /** Milliseconds, as of `performance.now()`. */
  now(): number;
  /** Milliseconds for which this thread had a core. */
  cpu(): number;
  /** The part of the time since this was last asked for which the event loop worked. */
  busy(): number;
  /** Runs something again and again. @returns what ends that */
  every(milliseconds: number, run: () => void): () => void;
}

/** The real one. */
export function loopClock(): LoopClock {
  let used = performance.eventLoopUtilization();
  return {
    now: () => performance.now(),
    cpu() {
      const { user, system } = process.threadCpuUsage();
      return (user + system) / 1000;
    },
    busy() {
      const { utilization } = performance.eventLoopUtilization(used);
      used = performance.eventLoopUtilization();
      return utilization;
    },
    every(milliseconds, run) {
      const timer = setInterval(run, milliseconds).unref();
      return () => clearInterval(timer);
    },
  };
}
