import { setTimeout as sleep } from "node:timers/promises";

/** A promise was not settled in time. */
export class TimeoutError extends Error {}

/** Returns a time limit as messages name it. */
export const formatTimeLimit = (milliseconds: number): string =>
  milliseconds < 1000 ? `${Math.round(milliseconds)} ms` : `${Math.round(milliseconds / 100) / 10} s`;

/** Milliseconds between two looks at a condition. */
const POLL_INTERVAL = 10;

/** Polls a condition until it holds, or for a maximum of milliseconds. */
export async function waitUntil(condition: () => boolean, timeout = Number.POSITIVE_INFINITY): Promise<void> {
  const limit = performance.now() + timeout;
  while (!condition() && performance.now() < limit) await sleep(POLL_INTERVAL);
}

/**
 * Awaits a promise for a limited time. The operation itself is not stopped.
 * @param deadline milliseconds
 * @param what the name of the other side, for the message
 * @throws TimeoutError when the time is over
 */
export const withTimeout = <T>(deadline: number, answer: Promise<T>, what = "it"): Promise<T> =>
  endInTime(deadline, answer, () => new TimeoutError(`${what} has not answered in ${formatTimeLimit(deadline)}`));

/** Does the same with an error of the caller's when the time is over. */
export async function endInTime<T>(deadline: number, work: T | Promise<T>, lateError: () => Error): Promise<T> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(lateError()), deadline);
  try {
    return await Promise.race([work, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}
