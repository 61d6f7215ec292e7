import type { Attempt } from "../core/exchange.ts";
import type { UpstreamResponse } from "./response.ts";

/** Bytes and milliseconds of an error that are waited for; what vendors say of a credential is a few hundred, and comes at once. */
const LARGEST = 16 * 1024;
const LONGEST = 1000;

/**
 * Whether a provider's error says in its body that it does not accept our credential, where its status does not say so. All of it
 * stays to be read.
 */
export function refusesCredential(response: UpstreamResponse, attempt: Attempt): boolean | Promise<boolean> {
  const { status } = response;
  const { credential, protocol } = attempt;
  if (!protocol.refusesCredential || !credential || status < 400 || status >= 500 || status === 401) return false;
  return new Promise((resolve) => {
    let timer: NodeJS.Timeout | undefined;
    let over = false;
    const settle = (refused: boolean): true => {
      over = true;
      clearTimeout(timer);
      resolve(refused);
      return true;
    };
    response.peek((pieces, last, whole) => {
      if (over) return true;
      if (pieces.reduce((sum, { length }) => sum + length, 0) > LARGEST) return settle(false);
      return last && settle(whole && protocol.refusesCredential?.(status, Buffer.concat(pieces)) === true);
    });
    if (!over) timer = setTimeout(settle, LONGEST, false).unref();
  });
}
