import type { Ledger } from "../store/ledger.ts";
import type { Terminal } from "./verb.ts";

/**
 * Tells the user if the ledger's figures lack exchanges that wait for the store. Must be called before they are queried: what
 * waits then may be in the store a moment later.
 * @returns the member of JSON objects
 */
export function reportBehind(ledger: Pick<Ledger, "isBehind">, io: Pick<Terminal, "err">): { behind?: true } {
  if (!ledger.isBehind()) return {};
  io.err("These figures lag: requests wait in the journal until the store can be written, see docs/store.md.");
  return { behind: true };
}
