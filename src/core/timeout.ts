/** A promise was not settled in time. */
export class TimeoutError extends Error {}

/**
 * Awaits a promise for a limited time. The operation itself is not stopped.
 * @param deadline milliseconds
 * @param what the name of the other side, for the message
 * @throws TimeoutError when the time is over
 */
export async function withTimeout<T>(deadline: number, answer: Promise<T>, what = "it"): Promise<T> {
  const expired = Promise.withResolvers<never>();
  const timer = setTimeout(
    () => expired.reject(new TimeoutError(`${what} has not answered in ${deadline} ms`)),
    deadline,
  );
  try {
    return await Promise.race([answer, expired.promise]);
  } finally {
    clearTimeout(timer);
  }
}
