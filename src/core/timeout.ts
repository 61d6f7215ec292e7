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
export async function withTimeout<T>(deadline: number, answer: Promise<T>, what = "it"): Promise<T> {
  const expired = Promise.withResolvers<never>();
  const timer = setTimeout(
    () => expired.reject(new TimeoutError(`${what} has not answered in ${formatTimeLimit(deadline)}`)),
    deadline,
  );
  try {
    return await Promise.race([answer, expired.promise]);
  } finally {
    clearTimeout(timer);
  }
}
