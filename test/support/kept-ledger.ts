import { join } from "node:path";
import type { Test } from "tap";
import { newId } from "../../src/core/id.ts";
import type { LedgerEntry } from "../../src/store/ledger.ts";
import { openStores } from "../../src/store/open.ts";
import { folderFor } from "./folder.ts";
import { plainEntry } from "./plain-entry.ts";

/** Creates stores in a new file, and returns a function that appends ordinary entries with changes to their ledger. */
export function keptLedger(t: Test) {
  const folder = folderFor(t);
  const stores = openStores(join(folder, "gateway.db"), [], () => {});
  t.teardown(() => stores.close());
  const append = (change: Partial<LedgerEntry>) =>
    stores.ledger.append(
      plainEntry(Date.UTC(2026, 10, 20, 12), {
        ...{ id: newId(Date.now()), key: "", model: "fast", protocol: "wire", operation: "generate", streaming: true },
        ...{ firstByte: 80, duration: 1_234, cost: 254_000_000 },
        attempts: [{ target: "p:m", status: 200, startedAt: 1 }],
        usage: { in: { total: 1_000_000, cached: 250_000 }, out: { total: 2_000, reasoning: 500 }, raw: undefined },
        ...change,
      }),
    );
  return { folder, stores, append };
}
