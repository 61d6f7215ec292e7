/**
 * Returns a promise of which a plugin may hear later than it fails, as it awaits something else first. Meanwhile nobody would have
 * handled the failure, for which Node ends the process.
 */
export function awaitedLater<Result>(promise: Promise<Result>): Promise<Result> {
  promise.catch(() => {});
  return promise;
}
