import { newId } from "../../src/core/id.ts";
import type { LedgerEntry } from "../../src/store/ledger.ts";

/** Returns an ordinary ledger entry of that time, with changes. */
export const plainEntry = (time: number, change: Partial<LedgerEntry> = {}): LedgerEntry => ({
  ...{ id: newId(time), time, key: "k", model: "m", target: "p:m", protocol: "w", operation: "o", status: 200 },
  ...{ outcome: "completed", streaming: false, attempts: [], duration: 1, source: "reported" },
  ...change,
});
