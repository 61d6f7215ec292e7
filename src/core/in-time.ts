/** A promise was not settled in time. */
export class SilentError extends Error {}

/**
 * Awaits a promise for a limited time. The operation itself is not stopped.
 * @param deadline milliseconds
 * @param asked the name of the other side, for the message
 * @throws SilentError when the time is over
 */
export async function inTime<T>(deadline: number, answer: Promise<T>, asked = "it"): Promise<T> {
  const silent = Promise.withResolvers<never>();
  const timer = setTimeout(
    () => silent.reject(new SilentError(`${asked} has not answered in ${deadline} ms`)),
    deadline,
  );
  try {
    return await Promise.race([answer, silent.promise]);
  } finally {
    clearTimeout(timer);
  }
}
