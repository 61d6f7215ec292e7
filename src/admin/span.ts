import type { LedgerSpan } from "../store/ledger.ts";
import { past } from "../text/when.ts";
import { AdminError } from "./errors.ts";

const DAY = 86_400_000;

/** The span of time that is asked for; without any the last 24 hours. @throws AdminError */
export function spanOf(query: URLSearchParams, zone: string, now = Date.now()): Required<LedgerSpan> {
  const since = query.get("since");
  const until = query.get("until");
  return {
    since: since === null ? now - DAY : moment(since, now, zone),
    until: until === null ? now + 1 : moment(until, now, zone),
  };
}

function moment(text: string, now: number, zone: string): number {
  try {
    return past(text, now, () => zone);
  } catch (thrown) {
    throw new AdminError("bad_request", (thrown as Error).message);
  }
}
