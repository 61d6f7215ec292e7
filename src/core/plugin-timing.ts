import type { Attempt } from "./attempt.ts";
import type { Exchange } from "./exchange.ts";
import type { FailedAnswer } from "./head.ts";
import type { MaybePromise } from "./plugin.ts";
import { isThenable } from "./plugin-deadline.ts";
import type { Stage } from "./stage.ts";

/** Runs a phase of a plugin, other than `response`. */
export type RunPhase = (exchange: Exchange, attempt?: Attempt, answer?: FailedAnswer) => MaybePromise<void>;

/** Receives the durations of phases, and failures to record. */
export interface PhaseObserver {
  /**
   * Reports the duration of a timed call.
   * @param hook the phase, or `serve`
   * @param ms of one call in 17
   */
  onDuration(plugin: string, hook: string, ms: number): void;
  /** Reports that a plugin's `done` has thrown, or did not end in time. */
  onDoneFailed(plugin: string): void;
  /** Reports a timed call that blocked the event loop for more than 50 ms: up to its first `await`, or a stage for one frame. */
  onBlocked(plugin: string, hook: string, ms: number): void;
}

/** Milliseconds that a call may block the event loop, during which nothing else is served. */
export const BLOCKING_MS = 50;
/** One of so many frames of a stage is timed, and the last: a stage that blocks the loop does it again. */
const FRAMES_PER_TIMING = 16;

/** Wraps a phase to report its duration. */
export function timePhase(observer: PhaseObserver, plugin: string, phase: string, run: RunPhase): RunPhase {
  return function (this: unknown, exchange, attempt, answer) {
    const began = performance.now();
    const took = () => observer.onDuration(plugin, phase, performance.now() - began);
    let result: MaybePromise<void>;
    try {
      result = run.call(this, exchange, attempt, answer);
    } catch (thrown) {
      took();
      throw thrown;
    } finally {
      reportBlocking(observer, plugin, phase, began);
    }
    // `then` is called once: some thenables start again with each call.
    if (isThenable(result)) return Promise.resolve(result).finally(took);
    took();
    return result;
  };
}

/**
 * Reports a call that blocked the event loop for too long.
 * @param began `performance.now()` before it
 */
function reportBlocking(observer: PhaseObserver, plugin: string, hook: string, began: number): void {
  const ms = performance.now() - began;
  if (ms > BLOCKING_MS) observer.onBlocked(plugin, hook, ms);
}

/** Wraps a stage to report when it blocks the event loop. */
export function timedStage(stage: Stage, name: string, observer: PhaseObserver): Stage {
  let untimedFrames = 0;
  return (frame) => {
    if (untimedFrames-- > 0 && frame.kind !== "end") return stage(frame);
    untimedFrames = FRAMES_PER_TIMING - 1;
    const began = performance.now();
    try {
      return stage(frame);
    } finally {
      reportBlocking(observer, name, "stage", began);
    }
  };
}
