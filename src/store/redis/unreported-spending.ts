import { randomUUID } from "node:crypto";
import type { Spending } from "../limiter.ts";
import { toDecimal } from "./sum-names.ts";

/** Items per script, so that none blocks the server for long. */
const BATCH = 50;
/** Number of payments tracked separately by the position of their row; further ones are merged by sum. */
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
  /** The position of its row in the journal of this process. */
  readonly position: number;
}

interface UnreportedPayment {
  readonly sum: string;
  /** Nano-dollars. */
  readonly cost: number;
  /** The position of its row in the journal of this process. */
  readonly position: number;
}

/** Sent under a name, so that a repeated batch counts once. */
interface UnreportedBatch<Item> {
  readonly name: string;
  readonly items: readonly Item[];
}

type Send = (script: "repay" | "pay", args: readonly string[]) => Promise<unknown>;

/**
 * What was spent while the server was unreachable, and must be reported to it; and what was reported, as long as a server that
 * replaces this one may load sums from the ledger without it.
 */
export class UnreportedSpending {
  private settlements: UnreportedSettlement[] = [];
  private payments = new Map<string, UnreportedPayment>();
  private storedPayments = new Map<string, UnreportedPayment>();
  private settlementBatches: UnreportedBatch<UnreportedSettlement>[] = [];
  private paymentBatches: UnreportedBatch<UnreportedPayment>[] = [];
  private sent = new Map<string, UnreportedPayment>();
  /** Number of them at which older ones are merged. */
  private maxSent = MAX_TRACKED;
  /** The epoch of the server to which all of it belongs. */
  private epoch = "";

  /** @param journal the name of this process's journal */
  constructor(private readonly journal: string) {}

  addSettlement(settlement: UnreportedSettlement): void {
    this.settlements.push(settlement);
  }

  /** Records what was spent without a reservation on the server. */
  addPayment(payment: UnreportedPayment): void {
    track(this.payments, payment);
  }

  /**
   * Merges payments up to a position by sum, as the server could not be reached after their rows were in the ledger's store: where
   * it comes back empty, it loads sums with all of them.
   */
  mergeStored(position: number): void {
    for (const [name, payment] of this.payments)
      if (payment.position <= position) {
        this.payments.delete(name);
        track(this.storedPayments, { ...payment, position });
      }
  }

  /** Records payments that the server may have counted under a name already. */
  addNamedPayments(name: string, payments: readonly UnreportedPayment[]): void {
    this.paymentBatches.push({ name, items: payments });
  }

  /** Whether something was reported that may not be in the ledger's store yet. */
  get hasSent(): boolean {
    return this.sent.size > 0;
  }

  /** Records what the server of an epoch has counted: if that is a former one, it must be reported to another. */
  addSent(payment: UnreportedPayment, epoch: string): void {
    if (epoch !== this.epoch) {
      this.addPayment(payment);
      return;
    }
    if (this.sent.size >= this.maxSent) {
      this.sent = mergeOlder(this.sent);
      // There may be many sums.
      this.maxSent = Math.max(MAX_TRACKED, 2 * this.sent.size);
    }
    track(this.sent, payment, true);
  }

  /** Forgets what was reported up to a position: whoever loads sums at another server from now on finds it in the ledger. */
  forgetSent(position: number): void {
    for (const [name, payment] of this.sent) if (payment.position <= position) this.sent.delete(name);
  }

  /** Takes note of a server, to which everything is reported once more: its sums may have been loaded without it. */
  changeServer(epoch: string): void {
    this.epoch = epoch;
    for (const payment of this.sent.values()) this.addPayment(payment);
    this.sent.clear();
  }

  /** Reports everything at once, with the positions of its rows; failed batches are kept. */
  report(send: Send): Promise<unknown>[] {
    const { epoch } = this;
    this.settlementBatches.push(...batches(this.settlements));
    this.paymentBatches.push(...batches([...this.storedPayments.values(), ...this.payments.values()]));
    this.settlements = [];
    this.storedPayments.clear();
    this.payments.clear();
    const settled = this.settlementBatches.map(async (batch) => {
      await send("repay", [batch.name, ...batch.items.flatMap((item) => this.settlementArgs(item, epoch))]);
      // A reply of a former server, or the second one.
      if (epoch !== this.epoch || !this.settlementBatches.includes(batch)) return;
      this.settlementBatches = this.settlementBatches.filter((each) => each !== batch);
      for (const item of batch.items) for (const payment of paymentsOf(item)) this.addSent(payment, epoch);
    });
    const paid = this.paymentBatches.map(async (batch) => {
      await send("pay", [
        batch.name,
        ...batch.items.flatMap((item) => [item.sum, toDecimal(item.cost), this.rowPlace(item.position)]),
      ]);
      if (epoch !== this.epoch || !this.paymentBatches.includes(batch)) return;
      this.paymentBatches = this.paymentBatches.filter((each) => each !== batch);
      for (const item of batch.items) this.addSent(item, epoch);
    });
    return [...settled, ...paid];
  }

  /** Serializes the place of a row for scripts. */
  rowPlace(position: number): string {
    return `${this.journal} ${position}`;
  }

  private settlementArgs(owed: UnreportedSettlement, epoch: string): string[] {
    const { id, time, json, used, unused, once, granted, position } = owed;
    // A reservation that the server has granted and no longer has was settled before.
    const counts = granted === epoch ? "" : "1";
    const amounts = [String(Math.ceil(used.tokens)), toDecimal(used.cost)];
    return [id, String(time), json, ...amounts, unused, this.rowPlace(position), once, counts];
  }
}

/** @param apart whether it is tracked by the position of its row, and not merged by sum */
function track(
  payments: Map<string, UnreportedPayment>,
  { sum, cost, position }: UnreportedPayment,
  apart = payments.size < MAX_TRACKED,
): void {
  if (cost === 0) return;
  const name = apart ? `${sum} ${position}` : sum;
  const known = payments.get(name);
  payments.set(name, { sum, cost: cost + (known?.cost ?? 0), position: Math.max(position, known?.position ?? 0) });
}

/** Merges the older half by sum: most of it is in the ledger's store already, and nothing of the rest may be missing. */
function mergeOlder(payments: ReadonlyMap<string, UnreportedPayment>): Map<string, UnreportedPayment> {
  const merged = new Map<string, UnreportedPayment>();
  const half = payments.size / 2;
  for (const [i, payment] of [...payments.values()].entries()) track(merged, payment, i >= half);
  return merged;
}

/** Returns what a settlement adds to each sum of its reservation; see `packReservation`. */
function paymentsOf({ json, used: { cost }, unused, position }: UnreportedSettlement): UnreportedPayment[] {
  const { levels } = JSON.parse(json) as { levels: [string, number, number, number, number, [sum: string][]][] };
  return levels.flatMap(([scope, , , , , budgets]) =>
    scope === unused ? [] : [...new Set(budgets.map(([sum]) => sum))].map((sum) => ({ sum, cost, position })),
  );
}

function batches<Item>(items: readonly Item[]): UnreportedBatch<Item>[] {
  const made: UnreportedBatch<Item>[] = [];
  for (let at = 0; at < items.length; at += BATCH)
    made.push({ name: randomUUID(), items: items.slice(at, at + BATCH) });
  return made;
}
