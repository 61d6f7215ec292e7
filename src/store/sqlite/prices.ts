import type { Price } from "../../core/price.ts";
import type { PriceVersion } from "../../core/price-list.ts";
import { PriceVersions } from "../price-versions.ts";
import type { SqliteDatabase } from "./database.ts";

export class SqlitePrices extends PriceVersions {
  constructor(private readonly database: SqliteDatabase) {
    super();
  }

  override async keep(prices: readonly PriceVersion[]): Promise<void> {
    const seen = this.database.prepare("select 1 from price where version = ?");
    const fresh = prices.filter(({ version }) => !seen.get(version));
    if (fresh.length === 0) return;
    const insert = this.database.prepare(
      "insert into price (version, terms, source, since) values (?, ?, ?, ?) on conflict do nothing",
    );
    const now = Date.now();
    await this.database.retryWhileBusy(() =>
      this.database.transaction(() => {
        for (const { version, price, source } of fresh) insert.run(version, JSON.stringify(price), source, now);
      }),
    );
  }

  override async find(version: string): Promise<PriceVersion | undefined> {
    const row = this.database.prepare("select terms, source from price where version = ?").get(version);
    if (!row) return undefined;
    return { version, price: JSON.parse(String(row["terms"])) as Price, source: String(row["source"]) };
  }
}
