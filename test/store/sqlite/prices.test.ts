import t from "tap";
import { SqliteDatabase } from "../../../src/store/sqlite/database.ts";
import { SqlitePrices } from "../../../src/store/sqlite/prices.ts";
import { pricesContract } from "../../support/prices-contract.ts";

pricesContract(t, async (t) => {
  const database = new SqliteDatabase(":memory:");
  t.teardown(() => database.close());
  const since = () => database.prepare("select since from price order by version").all();
  return { prices: new SqlitePrices(database), since };
});
