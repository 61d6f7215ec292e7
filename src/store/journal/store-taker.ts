import type { Row } from "../ledger-row.ts";
import type { LedgerStore } from "../ledger-store.ts";
import type { MadeObject } from "../object-rows.ts";
import type { LineTaker } from "./feeder.ts";

/** Writes lines of journals into the tables of a store. */
export class StoreTaker implements LineTaker {
  private made: MadeObject[] = [];

  constructor(private readonly store: Pick<LedgerStore, "ledger" | "objects">) {}

  appendRow(row: Row): void {
    this.store.ledger.appendRow(row);
  }

  appendObject(object: MadeObject): void {
    this.made.push(object);
  }

  async flush(): Promise<void> {
    await this.store.ledger.flush();
    const { made } = this;
    if (made.length === 0) return;
    await this.store.objects.insert(made);
    this.made = this.made.slice(made.length);
  }
}
