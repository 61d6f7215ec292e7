/** What a caller may use. */
export interface Limits {
  /** Requests in a minute. */
  rpm?: number;
  /** Tokens in a minute. */
  tpm?: number;
  /** Exchanges at the same time. */
  concurrency?: number;
  /** Nano-dollars in a calendar hour, day or month, UTC. */
  budget?: { cost: number; per: "hour" | "day" | "month" };
}

/** What an exchange used, or at most will. */
export interface Spending {
  tokens: number;
  /** Nano-dollars. */
  cost: number;
}

/** The limit that stands in the way, and the seconds after which asking again makes sense. */
export interface Excess {
  limit: keyof Limits;
  retryAfter: number;
}

/** Counts what callers use against what they may use. */
export abstract class Limiter {
  /**
   * Holds the worst case of an exchange in one atomic step: of any number of callers at once, only those pass for whom
   * there is room. A hold whose owner died ends by itself.
   * @returns undefined when there is room, and otherwise what is exceeded; nothing is held then.
   */
  abstract reserve(exchange: string, key: string, atMost: Spending, limits: Limits): Promise<Excess | undefined>;
  /** Puts what was used in the place of the hold. Settling again, or what was never reserved, changes nothing. */
  abstract settle(exchange: string, actual: Spending): Promise<void>;
}
