import type { Ledger } from "../store/ledger.ts";
import type { Terminal } from "./verb.ts";

const LAG_NOTICES = {
  store: "These figures lag: requests wait in the journal until the store can be written, see docs/store.md.",
  "store and journal":
    "Requests wait until the store can be written. Those in the journal are included; if the journal's disk is full, the newest are not, see docs/store.md.",
} as const;

/**
 * Tells the user on standard error if exchanges wait for the store. Must be called before the query: what waits then may be in
 * the store a moment later.
 * @param read where the user's figures or rows come from
 * @returns the member of JSON objects; arrays stay as they are
 */
export function reportBehind(
  ledger: Pick<Ledger, "isBehind">,
  io: Pick<Terminal, "err">,
  read: keyof typeof LAG_NOTICES = "store",
): { behind?: true } {
  if (!ledger.isBehind()) return {};
  io.err(LAG_NOTICES[read]);
  return { behind: true };
}
