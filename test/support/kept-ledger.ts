import { join } from "node:path";
import type { Test } from "tap";
import { newId } from "../../src/core/id.ts";
import type { LedgerEntry } from "../../src/store/ledger.ts";
import { openStores } from "../../src/store/open.ts";
import { folderFor } from "./folder.ts";

/** Creates stores in a new file, and returns a function that appends ordinary entries with changes to their ledger. */
export function keptLedger(t: Test) {
  const folder = folderFor(t);
  const stores = openStores(join(folder, "gateway.db"), [], () => {});
  t.teardown(() => stores.close());
  const append = (change: Partial<LedgerEntry>) =>
    stores.ledger.append({
      id: newId(Date.now()),
      time: Date.UTC(2026, 10, 20, 12),
      key: "",
      model: "fast",
      target: "p:m",
      protocol: "wire",
      operation: "generate",
      status: 200,
      outcome: "completed",
      streaming: true,
      attempts: [{ target: "p:m", status: 200, startedAt: 1 }],
      firstByte: 80,
      duration: 1_234,
      usage: { in: { total: 1_000_000, cached: 250_000 }, out: { total: 2_000, reasoning: 500 }, raw: undefined },
      source: "reported",
      cost: 254_000_000,
      ...change,
    });
  return { folder, stores, append };
}
