import type { Period } from "./calendar.ts";

/** What may be spent. */
export interface Budget {
  /** Integer nano-dollars. */
  readonly nano: number;
  readonly per: Period;
  /** Only told when it is nearly spent or spent; it refuses nothing. */
  readonly soft: boolean;
}

/** What may be used. What is absent, empty or 0 is not limited. */
export interface Limits {
  /** Requests in a minute. */
  readonly rpm?: number;
  /** Tokens in a minute, those that go in and those that come out. */
  readonly tpm?: number;
  /** Requests at the same time. */
  readonly concurrency?: number;
  readonly budgets?: readonly Budget[];
}
