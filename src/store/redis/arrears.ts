import { randomUUID } from "node:crypto";
import type { Spending } from "../limiter.ts";
import { digits } from "./holds.ts";

/** What is told in one step, so that none of them keeps the server long. */
const BATCH = 50;
/** Sums by the time at which they got into the ledger that are remembered apart; further ones are remembered without. */
const MANY = 20_000;

/** A reservation that was settled while the server was away, which knows of it, or may. */
interface OwedSettlement {
  readonly id: string;
  /** When it was reserved; Unix milliseconds. */
  readonly time: number;
  /** The reservation as scripts read it. */
  readonly json: string;
  readonly used: Spending;
  readonly unused: string;
  readonly once: string;
  /** The life of the server that has granted it, for sure. */
  readonly granted: string | undefined;
}

interface OwedPayment {
  readonly sum: string;
  readonly cost: number;
}

/** With the number of the writing to the ledger that has it for sure. */
type Owed<Item> = Item & { readonly writing: number };

/** Told under a name, so that it counts once however often it is. */
interface OwedBatch<Item> {
  readonly name: string;
  readonly items: readonly Owed<Item>[];
}

type Send = (script: "repay" | "pay", args: readonly string[]) => Promise<unknown>;

/** What a server that was away must be told of what was spent meanwhile. */
export class Arrears {
  private settlements: Owed<OwedSettlement>[] = [];
  private payments = new Map<string, Owed<OwedPayment>>();
  private settled: OwedBatch<OwedSettlement>[] = [];
  private paid: OwedBatch<OwedPayment>[] = [];
  /** Writings to the ledger so far, those of them that are done, and when the ones were that matter still; Unix milliseconds. */
  private writing = 0;
  private done = 0;
  private readonly written = new Map<number, number>();

  get empty(): boolean {
    return this.settlements.length + this.payments.size + this.settled.length + this.paid.length === 0;
  }

  settle(settlement: OwedSettlement): void {
    this.settlements.push({ ...settlement, writing: this.writing });
  }

  /** Nano-dollars were spent that the server had not reserved. */
  pay(sum: string, cost: number): void {
    const { writing } = this;
    const name = this.payments.size < MANY ? `${sum} ${writing}` : sum;
    this.payments.set(name, { sum, cost: cost + (this.payments.get(name)?.cost ?? 0), writing });
  }

  /**
   * What has been spent so far is being written to the ledger.
   * @returns to be called when it is there, with Unix milliseconds
   */
  write(): (now: number) => void {
    const writing = this.writing++;
    return (now) => {
      if (this.empty) this.written.clear();
      // One that failed is made good by the next.
      for (; this.done <= writing; this.done++) this.written.set(this.done, now);
    };
  }

  /**
   * Tells all of it at once, and since when it is in the ledger; what does not arrive is kept.
   * @param epoch the server's life
   * @param now Unix milliseconds, for what may not be there: it counts, though it may be there all the same
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
  // What it has granted and does not have any more was settled before.
  const counts = granted === epoch ? "" : "1";
  const amounts = [String(Math.ceil(used.tokens)), digits(used.cost)];
  return [id, String(time), json, ...amounts, unused, since, once, counts];
}
