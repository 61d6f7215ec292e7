import type { Charge, Spending } from "./limiter.ts";

/** Names of usage that counts once, remembered. */
const REMEMBERED = 10_000;
export const NOTHING: Spending = { tokens: 0, cost: 0 };

/** What usage belonged to that has been counted. */
export class OnceNames {
  private readonly counted = new Set<string>();

  /** What of a charge counts: nothing where it was counted before. */
  count({ once, tokens, cost }: Charge): Spending {
    if (once === undefined) return { tokens, cost };
    if (this.counted.has(once)) return NOTHING;
    if (this.counted.size >= REMEMBERED) this.counted.delete(this.counted.values().next().value as string);
    this.counted.add(once);
    return { tokens, cost };
  }
}
