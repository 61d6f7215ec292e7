import type { Price } from "../core/price.ts";
import type { PriceVersion } from "../core/price-list.ts";
import type { SqlRunner } from "./sql-runner.ts";

/** Prices per statement. */
const BATCH = 100;

/** The prices that ledger rows were computed with, by name. */
export class PriceVersions {
  constructor(private readonly database: SqlRunner) {}

  /** Stores prices before their use; existing ones stay unchanged. @throws Error on failure */
  async keep(prices: readonly PriceVersion[]): Promise<void> {
    if (prices.length === 0) return;
    const stored = new Set((await this.database.query("select version from price")).map(({ version }) => version));
    // In one order: gateways that keep the same ones at once would wait for each other's rows.
    const fresh = prices
      .filter(({ version }) => !stored.has(version))
      .sort((one, other) => (one.version < other.version ? -1 : 1));
    const since = Date.now();
    for (let at = 0; at < fresh.length; at += BATCH) {
      const some = fresh.slice(at, at + BATCH);
      const rows = some.map(() => "(?, ?, ?, ?)").join(", ");
      await this.database.query(
        `insert into price (version, terms, source, since) values ${rows} on conflict do nothing`,
        ...some.flatMap(({ version, price, source }) => [version, JSON.stringify(price), source, since]),
      );
    }
  }

  /** Returns the price of a name in a ledger row. */
  async find(version: string): Promise<PriceVersion | undefined> {
    const [row] = await this.database.query("select terms, source from price where version = ?", version);
    return row && { version, price: JSON.parse(String(row["terms"])) as Price, source: String(row["source"]) };
  }
}
