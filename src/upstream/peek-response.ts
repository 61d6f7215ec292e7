import type { UpstreamResponse } from "./response.ts";

/**
 * Inspects the beginning of a response, consuming nothing; undefined where nothing was found in time.
 * @param limit milliseconds
 * @param inspect called with everything that has arrived each time there is more, whether nothing more follows, and whether the body
 * is whole then. Returns true, as `settle` does, when it needs no more
 */
export function peekResponse<Found>(
  response: Pick<UpstreamResponse, "peek">,
  limit: number,
  inspect: (settle: (found?: Found) => true, pieces: readonly Buffer[], last: boolean, isComplete: boolean) => boolean,
): Promise<Found | undefined> {
  return new Promise((resolve) => {
    let timer: NodeJS.Timeout | undefined;
    let settled = false;
    const settle = (found?: Found): true => {
      settled = true;
      clearTimeout(timer);
      resolve(found);
      return true;
    };
    response.peek((pieces, last, isComplete) => settled || inspect(settle, pieces, last, isComplete));
    if (!settled) timer = setTimeout(settle, limit).unref();
  });
}
