import type { Price } from "../core/price.ts";
import type { PriceVersion } from "../core/price-list.ts";
import type { Database } from "./sqlite.ts";

/** The terms that rows of the ledger were reckoned with, by their names. */
export class SqlitePrices {
  constructor(private readonly database: Database) {}

  /** Keeps terms that are about to be in use. @throws SQLite's error when they cannot be written */
  async keep(prices: readonly PriceVersion[]): Promise<void> {
    const seen = this.database.prepare("select 1 from price where version = ?");
    const news = prices.filter(({ version }) => !seen.get(version));
    if (news.length === 0) return;
    const insert = this.database.prepare(
      "insert into price (version, terms, source, since) values (?, ?, ?, ?) on conflict do nothing",
    );
    const now = Date.now();
    await this.database.patiently(() =>
      this.database.transaction(() => {
        for (const { version, price, source } of news) insert.run(version, JSON.stringify(price), source, now);
      }),
    );
  }

  /** The terms of that name, which a row of the ledger tells. */
  find(version: string): PriceVersion | undefined {
    const row = this.database.prepare("select terms, source from price where version = ?").get(version);
    if (!row) return undefined;
    return { version, price: JSON.parse(String(row["terms"])) as Price, source: String(row["source"]) };
  }
}
