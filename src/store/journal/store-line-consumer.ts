import type { UsageRow } from "../ledger-row.ts";
import type { LedgerStore } from "../ledger-store.ts";
import type { CreatedObject } from "../object-rows.ts";
import type { LineConsumer } from "./feeder.ts";

/** Writes lines of journals into the tables of a store. */
export class StoreLineConsumer implements LineConsumer {
  private objects: CreatedObject[] = [];

  constructor(private readonly store: Pick<LedgerStore, "ledger" | "objects">) {}

  appendRow(row: UsageRow): void {
    this.store.ledger.appendRow(row);
  }

  appendObject(object: CreatedObject): void {
    this.objects.push(object);
  }

  async flush(): Promise<void> {
    await this.store.ledger.flush();
    const { objects } = this;
    if (objects.length === 0) return;
    await this.store.objects.insert(objects);
    this.objects = this.objects.slice(objects.length);
  }
}
