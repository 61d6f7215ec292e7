/** What was asked has not answered in time. */
export class SilentError extends Error {}

/**
 * An answer, if it comes in time. What is asked goes on all the same.
 * @param deadline milliseconds
 * @throws SilentError where it does not
 */
export async function inTime<T>(deadline: number, answer: Promise<T>): Promise<T> {
  const silent = Promise.withResolvers<never>();
  const timer = setTimeout(() => silent.reject(new SilentError(`it has not answered in ${deadline} ms`)), deadline);
  try {
    return await Promise.race([answer, silent.promise]);
  } finally {
    clearTimeout(timer);
  }
}
