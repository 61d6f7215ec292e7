import { spendUnknownError } from "../limit-results.ts";
import type { PlacedSpending } from "../spend.ts";

/** Milliseconds for which sums are cached. */
const TTL = 1000;

interface CachedSums {
  /** When its query began, in Unix milliseconds; undefined: it waits for the one before it. */
  asked: number | undefined;
  isOver: boolean;
  sums: Promise<PlacedSpending>;
}

/**
 * The ledger's sums, cached for a moment: many reservations may miss some at once. One query of a period runs at a time, as with
 * very many keys it takes longer than its result is cached.
 */
export class LedgerSums {
  /** By the start of their period. */
  private readonly cached = new Map<number, CachedSums>();

  constructor(
    private readonly spentSince: (since: number) => Promise<PlacedSpending>,
    private readonly clock: () => number,
  ) {}

  /**
   * Returns what was spent since then, from one query for many callers.
   * @throws GatewayError when the ledger does not respond
   */
  since(start: number): Promise<PlacedSpending> {
    const now = this.clock();
    // A clock that was set back makes none last longer.
    const isOld = ({ asked }: CachedSums) => asked !== undefined && Math.abs(now - asked) >= TTL;
    for (const [since, known] of this.cached) if (known.isOver && isOld(known)) this.cached.delete(since);
    const known = this.cached.get(start);
    return known && !isOld(known) ? known.sums : this.query(start, known?.sums);
  }

  clear(): void {
    this.cached.clear();
  }

  /** @param before the query that runs */
  private query(start: number, before?: Promise<unknown>): Promise<PlacedSpending> {
    const made = { asked: undefined, isOver: false } as CachedSums;
    const ask = () => {
      made.asked = this.clock();
      return this.spentSince(start);
    };
    made.sums = (before ? before.then(ask, ask) : ask())
      .catch((cause: unknown) => {
        if (this.cached.get(start) === made) this.cached.delete(start);
        throw spendUnknownError(cause);
      })
      .finally(() => {
        made.isOver = true;
      });
    this.cached.set(start, made);
    return made.sums;
  }
}
