import type { Charge, Spending } from "./limiter.ts";

/** Maximum number of remembered names. */
const REMEMBERED = 10_000;
export const NOTHING: Spending = { tokens: 0, cost: 0 };

/** Names of usage that has already been counted. */
export class OnceNames {
  private readonly counted = new Set<string>();

  /** Returns the part of a charge that counts: nothing if its name was counted before. */
  count({ once, tokens, cost }: Charge): Spending {
    if (once === undefined) return { tokens, cost };
    if (this.counted.has(once)) return NOTHING;
    if (this.counted.size >= REMEMBERED) this.counted.delete(this.counted.values().next().value as string);
    this.counted.add(once);
    return { tokens, cost };
  }
}
