import type { Period } from "../core/calendar.ts";
import type { LimitLevel } from "../core/limits.ts";
import type { MaybePromise } from "../core/plugin.ts";
import type { RateLimitStates } from "../core/protocol.ts";
import type { BudgetMark } from "./budget-marks.ts";

/** The usage of an exchange, actual or worst case. */
export interface Spending {
  readonly tokens: number;
  /** Nano-dollars. */
  readonly cost: number;
}

/** The actual usage at the end. */
export interface Charge extends Spending {
  /** Identifies usage that may be reported more than once: only the first counts, of an exchange and of its attempt. */
  readonly once?: string;
}

/** Where an exchange reserved nothing, as no limit was known there: budgets may have been added since. */
export interface Unreserved {
  readonly scopes: readonly string[];
  /** When the exchange began: Unix milliseconds. */
  readonly time: number;
}

/** A charge of an exchange that reserved nothing. */
export interface UnreservedCharge {
  readonly charge: Charge;
  readonly unreserved: Unreserved;
}

/** The usage that an exchange reserves before it begins. */
export interface Reservation {
  /** Names it for `settle`. */
  readonly id: string;
  /** Each of them has limits. */
  readonly levels: readonly LimitLevel[];
  /** The worst case, which is reserved. */
  readonly maximum: Spending;
  /** The charge if its process dies, and the ledger gets no row. */
  readonly minimum: Spending;
}

/** A reservation that is counted in a process which may end before the exchange, or be succeeded by another one. */
export interface RunningReservation {
  readonly reservation: Reservation;
  /** When it was made; Unix milliseconds. */
  readonly time: number;
}

/** The limit that was exceeded. */
export interface Excess {
  readonly limit: "rpm" | "tpm" | "concurrency" | "budget";
  readonly level: Pick<LimitLevel, "kind" | "name" | "label">;
  /** The limit's size; of a budget, nano-dollars. */
  readonly allowed: number;
  readonly remaining: number;
  /** The amount requested, in the worst case. */
  readonly requested: number;
  /** Of a budget. */
  readonly per?: Period;
  /** Of a budget: nano-dollars spent, without what running requests have reserved. */
  readonly spent?: number;
  /** Unix milliseconds at which a budget's next period begins. */
  readonly resets?: number;
  /** Seconds after which a retry makes sense; absent: never. */
  readonly retryAfter?: number;
}

/** A reservation that was made, with the limits closest to exhaustion. */
export interface Grant extends RateLimitStates {
  /** Warnings about nearly spent soft budgets. */
  readonly warnings?: readonly string[];
}

export type ReserveResult = { readonly excess: Excess } | { readonly grant: Grant };

/** The state of a budget. Sums in nano-dollars. */
export interface BudgetStatus {
  readonly limit: number;
  readonly per: Period;
  readonly soft: boolean;
  readonly spent: number;
  /** The worst-case cost of running exchanges. */
  readonly reserved: number;
  readonly remaining: number;
  /** Unix milliseconds at which its next period begins; absent: never. */
  readonly resets?: number;
}

/** The state of all limits of a level; absent members are not limited. */
export interface LimitStatus extends Pick<LimitLevel, "kind" | "name">, RateLimitStates {
  readonly concurrency?: { readonly limit: number; readonly remaining: number };
  readonly budgets: readonly BudgetStatus[];
}

/** `apart`: counts cannot be shared at the moment, and this process keeps to its part. */
export type LimiterState = "ok" | "apart";

/** Counts usage against limits. */
export abstract class Limiter {
  /** Called for each share of a budget that is reached, and for refusals by an exhausted budget. */
  onBudgetMark: (mark: BudgetMark) => void = () => {};

  /**
   * Reserves the worst case of an exchange at all levels in one atomic step: of concurrent requests, only those pass that fit
   * into every level. The first level without room refuses, and nothing is reserved then.
   * @throws GatewayError when the money spent so far is unknown
   */
  abstract reserve(reservation: Reservation): MaybePromise<ReserveResult>;
  /**
   * Replaces a reservation with the actual usage. Has no effect for an unknown or settled reservation.
   * @param unused the scope of one of its levels at which nothing was used
   * @param unreserved other scopes that count the cost, if they have budgets by now; also without a reservation
   */
  abstract settle(id: string, used: Charge, unused?: string, unreserved?: Unreserved): void;
  abstract statuses(levels: readonly LimitLevel[]): Promise<LimitStatus[]>;

  get state(): LimiterState {
    return "ok";
  }

  /**
   * Sends what was settled without a reservation to where it is counted: it may wait, as it matters only to budgets that are added.
   * Called before the ledger's store has it, so that whoever reads a new budget's sum there counts it once.
   */
  sendUnreserved(): void {}

  /** Running reservations of this process that are counted in memory, here or in the primary. */
  get running(): readonly RunningReservation[] {
    return [];
  }

  /** Number of times that counts were lost. */
  get errors(): number {
    return 0;
  }

  /** Loads what was spent before, so that no request has to wait for it. Rejects when that is unknown. */
  async prepare(_periods: Iterable<Period>): Promise<void> {}

  /** Releases its resources. */
  async close(): Promise<void> {}
}
