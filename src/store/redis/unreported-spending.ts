import { randomUUID } from "node:crypto";
import type { Spending } from "../limiter.ts";
import { toDecimal } from "./sum-names.ts";

/** Items per script, so that none blocks the server for long. */
const BATCH = 50;
/** Number of payments tracked separately by ledger write; further ones are merged by sum. */
const MAX_TRACKED = 20_000;

/** A reservation settled while the server was unreachable; the server knows it, or may know it. */
interface UnreportedSettlement {
  readonly id: string;
  /** When it was reserved; Unix milliseconds. */
  readonly time: number;
  /** The reservation as scripts parse it. */
  readonly json: string;
  readonly used: Spending;
  readonly unused: string;
  readonly once: string;
  /** The epoch of the server that has certainly granted it. */
  readonly granted: string | undefined;
}

interface UnreportedPayment {
  readonly sum: string;
  readonly cost: number;
}

/** With the number of the ledger write that certainly includes it. */
type Unreported<Item> = Item & { readonly writing: number };

/** Sent under a name, so that a repeated batch counts once. */
interface UnreportedBatch<Item> {
  readonly name: string;
  readonly items: readonly Unreported<Item>[];
}

type Send = (script: "repay" | "pay", args: readonly string[]) => Promise<unknown>;

/** What was spent while the server was unreachable, and must be reported to it. */
export class UnreportedSpending {
  private settlements: Unreported<UnreportedSettlement>[] = [];
  private payments = new Map<string, Unreported<UnreportedPayment>>();
  private settlementBatches: UnreportedBatch<UnreportedSettlement>[] = [];
  private paymentBatches: UnreportedBatch<UnreportedPayment>[] = [];
  /** The numbers of ledger writes begun and completed, and the completion times of those still needed; Unix milliseconds. */
  private writing = 0;
  private writesDone = 0;
  private readonly writeTimes = new Map<number, number>();

  get empty(): boolean {
    return (
      this.settlements.length + this.payments.size + this.settlementBatches.length + this.paymentBatches.length === 0
    );
  }

  addSettlement(settlement: UnreportedSettlement): void {
    this.settlements.push({ ...settlement, writing: this.writing });
  }

  /** Records nano-dollars that were spent without a reservation on the server. */
  addPayment(sum: string, cost: number): void {
    const { writing } = this;
    const name = this.payments.size < MAX_TRACKED ? `${sum} ${writing}` : sum;
    this.payments.set(name, { sum, cost: cost + (this.payments.get(name)?.cost ?? 0), writing });
  }

  /** Records payments that the server may have counted under a name already. */
  addNamedPayments(name: string, payments: readonly UnreportedPayment[]): void {
    const { writing } = this;
    this.paymentBatches.push({ name, items: payments.map((payment) => ({ ...payment, writing })) });
  }

  /**
   * Begins a write of everything spent so far to the ledger.
   * @returns a function to call when it is done, with Unix milliseconds
   */
  beginLedgerWrite(): (now: number) => void {
    const writing = this.writing++;
    return (now) => {
      if (this.empty) this.writeTimes.clear();
      // A failed write is covered by the next.
      for (; this.writesDone <= writing; this.writesDone++) this.writeTimes.set(this.writesDone, now);
    };
  }

  /**
   * Reports everything at once, with the time since which it is in the ledger; failed batches are kept.
   * @param epoch the server's epoch
   * @param now Unix milliseconds, for what may not be in the ledger: it is counted, though it may be there
   */
  report(epoch: string, now: number, send: Send): Promise<unknown>[] {
    const since = ({ writing }: Unreported<object>) => String(this.writeTimes.get(writing) ?? now);
    this.settlementBatches.push(...batches(this.settlements));
    this.paymentBatches.push(...batches([...this.payments.values()]));
    this.settlements = [];
    this.payments.clear();
    const settled = this.settlementBatches.map(async (batch) => {
      await send("repay", [batch.name, ...batch.items.flatMap((item) => settlementArgs(item, epoch, since(item)))]);
      this.settlementBatches = this.settlementBatches.filter((each) => each !== batch);
    });
    const paid = this.paymentBatches.map(async (batch) => {
      await send("pay", [batch.name, ...batch.items.flatMap((item) => [item.sum, toDecimal(item.cost), since(item)])]);
      this.paymentBatches = this.paymentBatches.filter((each) => each !== batch);
    });
    return [...settled, ...paid];
  }
}

function batches<Item>(items: readonly Unreported<Item>[]): UnreportedBatch<Item>[] {
  const made: UnreportedBatch<Item>[] = [];
  for (let at = 0; at < items.length; at += BATCH)
    made.push({ name: randomUUID(), items: items.slice(at, at + BATCH) });
  return made;
}

function settlementArgs(owed: UnreportedSettlement, epoch: string, since: string): string[] {
  const { id, time, json, used, unused, once, granted } = owed;
  // A reservation that the server has granted and no longer has was settled before.
  const counts = granted === epoch ? "" : "1";
  const amounts = [String(Math.ceil(used.tokens)), toDecimal(used.cost)];
  return [id, String(time), json, ...amounts, unused, since, once, counts];
}
