import type { PriceVersion } from "../core/price-list.ts";

/** The terms that rows of the ledger were reckoned with, by their names. */
export abstract class PriceVersions {
  /** Keeps terms that are about to be in use; those that are there already stay as they are. @throws Error when it cannot */
  abstract keep(prices: readonly PriceVersion[]): Promise<void>;
  /** The terms of that name, which a row of the ledger tells. */
  abstract find(version: string): Promise<PriceVersion | undefined>;
}
