import { spendUnknownError } from "../limit-results.ts";
import type { PlacedSpending } from "../spend.ts";

/** Milliseconds for which sums are cached. */
const TTL = 1000;

/** The ledger's sums, cached for a moment: many reservations may miss some at once. */
export class LedgerSums {
  /** By the start of their period; `asked` in Unix milliseconds. */
  private readonly cached = new Map<number, { readonly asked: number; readonly sums: Promise<PlacedSpending> }>();

  constructor(
    private readonly spentSince: (since: number) => Promise<PlacedSpending>,
    private readonly clock: () => number,
  ) {}

  /**
   * Returns what was spent since then, from one query for many callers.
   * @throws GatewayError when the ledger does not respond
   */
  since(start: number): Promise<PlacedSpending> {
    const asked = this.clock();
    // A clock that was set back makes none last longer.
    for (const [since, known] of this.cached) if (Math.abs(asked - known.asked) >= TTL) this.cached.delete(since);
    const known = this.cached.get(start);
    if (known) return known.sums;
    const sums = this.spentSince(start).catch((cause: unknown) => {
      this.cached.delete(start);
      throw spendUnknownError(cause);
    });
    this.cached.set(start, { asked, sums });
    return sums;
  }

  clear(): void {
    this.cached.clear();
  }
}
