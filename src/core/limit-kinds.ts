import type { Period } from "./calendar.ts";

/** A limit of spending per period. */
export interface Budget {
  /** Integer nano-dollars. */
  readonly nano: number;
  readonly per: Period;
  /** Only raises a notice when nearly or fully spent; refuses nothing. */
  readonly soft: boolean;
}

/** Limits of use. Absent, empty or 0 means unlimited. */
export interface Limits {
  /** Requests per minute. */
  readonly rpm?: number;
  /** Input and output tokens per minute. */
  readonly tpm?: number;
  /** Concurrent requests. */
  readonly concurrency?: number;
  readonly budgets?: readonly Budget[];
}
