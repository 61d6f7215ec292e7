import type { UpstreamResponse } from "./response.ts";

/**
 * What the beginning of a response comes to; undefined where nothing was found in time. All of it stays to be read.
 * @param limit milliseconds
 * @param look is given all that has come each time that there is more, whether that is the last of it, and whether it is whole then;
 * true, as `settle` answers: it has seen enough
 */
export function peeked<Found>(
  response: Pick<UpstreamResponse, "peek">,
  limit: number,
  look: (settle: (found?: Found) => true, pieces: readonly Buffer[], last: boolean, whole: boolean) => boolean,
): Promise<Found | undefined> {
  return new Promise((resolve) => {
    let timer: NodeJS.Timeout | undefined;
    let over = false;
    const settle = (found?: Found): true => {
      over = true;
      clearTimeout(timer);
      resolve(found);
      return true;
    };
    response.peek((pieces, last, whole) => over || look(settle, pieces, last, whole));
    if (!over) timer = setTimeout(settle, limit).unref();
  });
}
