import type { Price } from "../../core/price.ts";
import type { PriceVersion } from "../../core/price-list.ts";
import { PriceVersions } from "../price-versions.ts";
import type { PostgresDatabase } from "./database.ts";

/** Prices in PostgreSQL. */
export class PostgresPrices extends PriceVersions {
  constructor(private readonly database: PostgresDatabase) {
    super();
  }

  override async keep(prices: readonly PriceVersion[]): Promise<void> {
    if (prices.length === 0) return;
    const since = Date.now();
    const rows = prices.map(({ version, price, source }) => ({ version, terms: JSON.stringify(price), source, since }));
    await this.database.query(INSERT, JSON.stringify(rows));
  }

  override async find(version: string): Promise<PriceVersion | undefined> {
    const [row] = await this.database.query("select terms, source from price where version = ?::text", version);
    if (!row) return undefined;
    return { version, price: JSON.parse(String(row["terms"])) as Price, source: String(row["source"]) };
  }
}

const INSERT = `insert into price (version, terms, source, since) select version, terms, source, since
  from json_to_recordset(?::text::json) as given (version text, terms text, source text, since bigint)
  order by version on conflict do nothing`;
