import type { PriceVersion } from "../core/price-list.ts";

/** The prices that ledger rows were computed with, by name. */
export abstract class PriceVersions {
  /** Stores prices before their use; existing ones stay unchanged. @throws Error on failure */
  abstract keep(prices: readonly PriceVersion[]): Promise<void>;
  /** Returns the price of a name in a ledger row. */
  abstract find(version: string): Promise<PriceVersion | undefined>;
}
