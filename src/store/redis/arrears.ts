import { randomUUID } from "node:crypto";
import type { Spending } from "../limiter.ts";
import { digits } from "./holds.ts";

/** What is told in one step, so that none of them keeps the server long. */
const BATCH = 50;
/** Sums by the second that are remembered apart; further ones are remembered without. */
const MANY = 20_000;

/** A reservation that was settled while the server was away, which knows of it, or may. */
export interface OwedSettlement {
  readonly id: string;
  /** When it was reserved, and when it was settled; Unix milliseconds. */
  readonly time: number;
  readonly at: number;
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
  cost: number;
  at: number;
}

/** Told under a name, so that it counts once however often it is. */
interface OwedBatch<Item> {
  readonly name: string;
  readonly items: readonly Item[];
}

type Send = (script: "repay" | "pay", args: readonly string[]) => Promise<unknown>;

/** What a server that was away must be told of what was spent meanwhile. */
export class Arrears {
  private settlements: OwedSettlement[] = [];
  private payments = new Map<string, OwedPayment>();
  private settled: OwedBatch<OwedSettlement>[] = [];
  private paid: OwedBatch<OwedPayment>[] = [];

  get empty(): boolean {
    return this.settlements.length + this.payments.size + this.settled.length + this.paid.length === 0;
  }

  settle(settlement: OwedSettlement): void {
    this.settlements.push(settlement);
  }

  /** Nano-dollars were spent that the server had not reserved. @param at Unix milliseconds */
  pay(sum: string, cost: number, at: number): void {
    const name = this.payments.size < MANY ? `${sum} ${Math.floor(at / 1000)}` : sum;
    const known = this.payments.get(name);
    if (!known) this.payments.set(name, { sum, cost, at });
    else Object.assign(known, { cost: known.cost + cost, at: Math.max(known.at, at) });
  }

  /** Tells all of it at once; what does not arrive is kept. @param epoch the server's life */
  tell(epoch: string, send: Send): Promise<unknown>[] {
    this.settled.push(...batches(this.settlements));
    this.paid.push(...batches([...this.payments.values()]));
    this.settlements = [];
    this.payments.clear();
    const settled = this.settled.map(async (batch) => {
      await send("repay", [batch.name, ...batch.items.flatMap((item) => settlementWords(item, epoch))]);
      this.settled = this.settled.filter((each) => each !== batch);
    });
    const paid = this.paid.map(async (batch) => {
      await send("pay", [batch.name, ...batch.items.flatMap(({ sum, cost, at }) => [sum, digits(cost), String(at)])]);
      this.paid = this.paid.filter((each) => each !== batch);
    });
    return [...settled, ...paid];
  }
}

function batches<Item>(items: readonly Item[]): OwedBatch<Item>[] {
  const made: OwedBatch<Item>[] = [];
  for (let at = 0; at < items.length; at += BATCH)
    made.push({ name: randomUUID(), items: items.slice(at, at + BATCH) });
  return made;
}

function settlementWords(owed: OwedSettlement, epoch: string): string[] {
  const { id, time, json, used, unused, at, once, granted } = owed;
  // What it has granted and does not have any more was settled before.
  const counts = granted === epoch ? "" : "1";
  const amounts = [String(Math.ceil(used.tokens)), digits(used.cost)];
  return [id, String(time), json, ...amounts, unused, String(at), once, counts];
}
