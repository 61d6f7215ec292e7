/** What was asked has not answered in time. */
export class SilentError extends Error {}

/**
 * An answer, if it comes in time. What is asked goes on all the same.
 * @param deadline milliseconds
 * @param asked who is asked, as messages name it
 * @throws SilentError where it does not
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
