import type { MaybePromise } from "../core/plugin.ts";
import { totalLength } from "../wire/pieces.ts";
import type { UpstreamResponse } from "./response.ts";

/**
 * Inspects the beginning of a response, consuming nothing; undefined where nothing was found in time. What has arrived is inspected
 * at once, and usually enough: no promise is created then.
 * @param limit milliseconds
 * @param inspect called with everything that has arrived each time there is more, whether nothing more follows, and whether the body
 * is whole then. Returns true, as `settle` does, when it needs no more
 * @throws what `inspect` does
 */
export function peekResponse<Found>(
  response: Pick<UpstreamResponse, "peek">,
  limit: number,
  inspect: (settle: (found?: Found) => true, pieces: readonly Buffer[], last: boolean, isComplete: boolean) => boolean,
): MaybePromise<Found | undefined> {
  let timer: NodeJS.Timeout | undefined;
  let settled = false;
  let result: Found | undefined;
  const failures: unknown[] = [];
  let waiting: PromiseWithResolvers<Found | undefined> | undefined;
  const settle = (found?: Found): true => {
    settled = true;
    result = found;
    if (timer) clearTimeout(timer);
    waiting?.resolve(found);
    return true;
  };
  response.peek((pieces, last, isComplete) => {
    try {
      return settled || inspect(settle, pieces, last, isComplete);
    } catch (thrown) {
      // Whoever passes on what has arrived has nobody to tell, and the process would end.
      failures.push(thrown);
      waiting?.reject(thrown);
      return settle();
    }
  });
  if (failures.length > 0) throw failures[0];
  if (settled) return result;
  waiting = Promise.withResolvers<Found | undefined>();
  timer = setTimeout(settle, limit).unref();
  return waiting.promise;
}

/**
 * Maximum bytes of an error body that is inspected, and milliseconds to wait for it; what a vendor says about a credential or a
 * wait has a few hundred bytes and comes at once.
 */
const MAX_ERROR_BODY = 16 * 1024;
const MAX_BODY_WAIT = 1000;

/** Returns what `inspect` finds in the body of an error, consuming nothing; undefined also where the body is not whole in time. */
export const peekErrorBody = <Found>(
  response: Pick<UpstreamResponse, "peek">,
  inspect: (body: Buffer) => Found | undefined,
): MaybePromise<Found | undefined> =>
  peekResponse<Found>(response, MAX_BODY_WAIT, (settle, pieces, last, whole) => {
    if (totalLength(pieces) > MAX_ERROR_BODY) return settle();
    return last && settle(whole ? inspect(Buffer.concat(pieces)) : undefined);
  });
