import type { Period } from "../core/calendar.ts";
import type { LimitLevel } from "../core/limits.ts";
import type { RateDistances } from "../core/protocol.ts";
import type { BudgetMark } from "./budget-marks.ts";

/** What an exchange has used, or at most will. */
export interface Spending {
  readonly tokens: number;
  /** Nano-dollars. */
  readonly cost: number;
}

/** What it comes to in the end. */
export interface Charge extends Spending {
  /** What it belongs to, where that may be told more than once: it counts for the first one. */
  readonly once?: string;
}

export interface Reservation {
  /** Ends it again. */
  readonly id: string;
  /** None of them is without limits. */
  readonly levels: readonly LimitLevel[];
  readonly most: Spending;
  /** What it comes to where its process dies. */
  readonly least: Spending;
}

/** The limit that stands in the way. */
export interface Excess {
  readonly limit: "rpm" | "tpm" | "concurrency" | "budget";
  readonly of: Pick<LimitLevel, "kind" | "name" | "label">;
  /** How much it is; nano-dollars of a budget. */
  readonly most: number;
  readonly left: number;
  /** What was asked for at most. */
  readonly asked: number;
  /** Of a budget. */
  readonly per?: Period;
  /** Unix milliseconds at which a budget begins anew. */
  readonly resets?: number;
  /** Seconds after which asking again makes sense; absent: it never does. */
  readonly retryAfter?: number;
}

/** A reservation that was made, with the limits that are nearest. */
export interface Grant extends RateDistances {
  /** Soft budgets of which not much is left, in words. */
  readonly warnings?: readonly string[];
}

export type Reserved = { readonly excess: Excess } | { readonly grant: Grant };

/** Where a budget stands. Sums in nano-dollars. */
export interface BudgetStanding {
  readonly limit: number;
  readonly per: Period;
  readonly soft: boolean;
  readonly spent: number;
  /** What running exchanges may still cost. */
  readonly reserved: number;
  readonly left: number;
  /** Unix milliseconds at which it begins anew; absent: never. */
  readonly resets?: number;
}

/** Where all limits of a level stand; an absent one is not limited. */
export interface Standing extends Pick<LimitLevel, "kind" | "name">, RateDistances {
  readonly concurrency?: { readonly limit: number; readonly left: number };
  readonly budgets: readonly BudgetStanding[];
}

/** `apart`: counts cannot be shared at the moment, and this process keeps to its part. */
export type LimiterState = "ok" | "apart";

/** Counts what is used against what may be. */
export abstract class Limiter {
  /** Told of each share of a budget that is reached, and of refusals for want of room in one. */
  marked: (mark: BudgetMark) => void = () => {};

  /**
   * Reserves the worst case of an exchange at all levels in one step: of any number at once, only those pass for which there
   * is room everywhere. The first level without room refuses, and nothing is reserved then.
   * @throws GatewayError where nobody can say what has been spent
   */
  abstract reserve(reservation: Reservation): Reserved | Promise<Reserved>;
  /**
   * Puts what was used in the place of a reservation. Settling again, or what was never reserved, changes nothing.
   * @param unused the scope of a level of it at which nothing was used
   */
  abstract settle(id: string, used: Charge, unused?: string): void;
  abstract standings(levels: readonly LimitLevel[]): Promise<Standing[]>;

  get state(): LimiterState {
    return "ok";
  }

  /** Times that what counts was lost. */
  get errors(): number {
    return 0;
  }

  /** Asks what was spent before, so that no request has to wait for that. Rejects where nobody can say. */
  async prepare(_periods: Iterable<Period>): Promise<void> {}

  /** Frees what it has open. */
  async close(): Promise<void> {}
}
