import { randomUUID } from "node:crypto";
import type { Spending } from "../limiter.ts";
import { digits } from "./holds.ts";

/** Items per script, so that none blocks the server for long. */
const BATCH = 50;
/** Number of payments tracked separately by ledger write; further ones are merged by sum. */
const MANY = 20_000;

/** A reservation settled while the server was unreachable; the server knows it, or may know it. */
interface OwedSettlement {
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

interface OwedPayment {
  readonly sum: string;
  readonly cost: number;
}

/** With the number of the ledger write that certainly includes it. */
type Owed<Item> = Item & { readonly writing: number };

/** Sent under a name, so that a repeated batch counts once. */
interface OwedBatch<Item> {
  readonly name: string;
  readonly items: readonly Owed<Item>[];
}

type Send = (script: "repay" | "pay", args: readonly string[]) => Promise<unknown>;

/** What was spent while the server was unreachable, and must be reported to it. */
export class Arrears {
  private settlements: Owed<OwedSettlement>[] = [];
  private payments = new Map<string, Owed<OwedPayment>>();
  private settled: OwedBatch<OwedSettlement>[] = [];
  private paid: OwedBatch<OwedPayment>[] = [];
  /** The numbers of ledger writes begun and completed, and the completion times of those still needed; Unix milliseconds. */
  private writing = 0;
  private done = 0;
  private readonly written = new Map<number, number>();

  get empty(): boolean {
    return this.settlements.length + this.payments.size + this.settled.length + this.paid.length === 0;
  }

  settle(settlement: OwedSettlement): void {
    this.settlements.push({ ...settlement, writing: this.writing });
  }

  /** Records nano-dollars that were spent without a reservation on the server. */
  pay(sum: string, cost: number): void {
    const { writing } = this;
    const name = this.payments.size < MANY ? `${sum} ${writing}` : sum;
    this.payments.set(name, { sum, cost: cost + (this.payments.get(name)?.cost ?? 0), writing });
  }

  /**
   * Begins a write of everything spent so far to the ledger.
   * @returns a function to call when it is done, with Unix milliseconds
   */
  write(): (now: number) => void {
    const writing = this.writing++;
    return (now) => {
      if (this.empty) this.written.clear();
      // A failed write is covered by the next.
      for (; this.done <= writing; this.done++) this.written.set(this.done, now);
    };
  }

  /**
   * Reports everything at once, with the time since which it is in the ledger; failed batches are kept.
   * @param epoch the server's epoch
   * @param now Unix milliseconds, for what may not be in the ledger: it is counted, though it may be there
   */
  tell(epoch: string, now: number, send: Send): Promise<unknown>[] {
    const since = ({ writing }: Owed<object>) => String(this.written.get(writing) ?? now);
    this.settled.push(...batches(this.settlements));
    this.paid.push(...batches([...this.payments.values()]));
    this.settlements = [];
    this.payments.clear();
    const settled = this.settled.map(async (batch) => {
      await send("repay", [batch.name, ...batch.items.flatMap((item) => settlementWords(item, epoch, since(item)))]);
      this.settled = this.settled.filter((each) => each !== batch);
    });
    const paid = this.paid.map(async (batch) => {
      await send("pay", [batch.name, ...batch.items.flatMap((item) => [item.sum, digits(item.cost), since(item)])]);
      this.paid = this.paid.filter((each) => each !== batch);
    });
    return [...settled, ...paid];
  }
}

function batches<Item>(items: readonly Owed<Item>[]): OwedBatch<Item>[] {
  const made: OwedBatch<Item>[] = [];
  for (let at = 0; at < items.length; at += BATCH)
    made.push({ name: randomUUID(), items: items.slice(at, at + BATCH) });
  return made;
}

function settlementWords(owed: OwedSettlement, epoch: string, since: string): string[] {
  const { id, time, json, used, unused, once, granted } = owed;
  // A reservation that the server has granted and no longer has was settled before.
  const counts = granted === epoch ? "" : "1";
  const amounts = [String(Math.ceil(used.tokens)), digits(used.cost)];
  return [id, String(time), json, ...amounts, unused, since, once, counts];
}
